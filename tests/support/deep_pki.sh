#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An authority below another one, by openssl: deep_pki.sh DIR FLEET makes the new folder DIR with
# root -> middle -> operator-deep (.pem, the chain; .key), and lists of all authorities: all.crl,
# leaf-revoked.crl, middle-revoked.crl, and alike.crl, in which the root revokes a certificate of
# its own that has the operator's serial.
set -e
mkdir "$1"
cd "$1"
umask 077

new() {
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" \
        -subj "/CN=$1 authority" -out "$1.csr" 2>/dev/null
}
sign() { # CSR OUT OPTIONS...
    of=$1 out=$2
    shift 2
    openssl x509 -req -in "$of.csr" -days 9 -extfile "$of.ext" "$@" -out "$out.pem" 2>/dev/null
}
list() { # AUTHORITY OUT [REVOKED]
    printf '[ca]\ndefault_ca=d\n[d]\ndatabase=%s.index\ndefault_md=sha256\n' "$2" >"$1.conf"
    : >"$2.index"
    set -- "$1" "$2" "$3" -config "$1.conf" -keyfile "$1.key" -cert "$1.pem"
    who=$2 revoked=$3
    shift 3
    [ -z "$revoked" ] || openssl ca "$@" -revoke "$revoked.pem" 2>/dev/null
    openssl ca "$@" -gencrl -crldays 9 -out "$who.crl" 2>/dev/null
}

for ca in root middle; do
    new $ca
    printf 'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n' >$ca.ext
    echo 'subjectKeyIdentifier=hash' >>$ca.ext
done
new leaf
printf 'subjectAltName=URI:perfleet://%s/operator/deep\nextendedKeyUsage=clientAuth\n' "$2" >leaf.ext
echo 'keyUsage=digitalSignature' >>leaf.ext
sign root root -signkey root.key -set_serial 1
sign middle middle -CA root.pem -CAkey root.key -set_serial 2
sign leaf leaf -CA middle.pem -CAkey middle.key -set_serial 3
sign leaf namesake -CA root.pem -CAkey root.key -set_serial 3
cat leaf.pem middle.pem >operator-deep.pem
cp leaf.key operator-deep.key

list root root
list middle middle
list middle leafless leaf
list root middleless middle
list root namesakeless namesake
cat root.crl middle.crl >all.crl
cat root.crl leafless.crl >leaf-revoked.crl
cat middleless.crl middle.crl >middle-revoked.crl
cat namesakeless.crl middle.crl >alike.crl
