#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2153
# perfleet-pki: nothing is lost by running it twice, at the same time, in odd folders, or with the
# authority's key elsewhere; revoking a name revokes all that was issued to it.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"

PKI=$ROOT/deploy/pki/perfleet-pki
not() { ! "$@"; }

verify() { # verify DIR CERT: against the authority and its CRL
    openssl verify -crl_check -CAfile "$1/ca.pem" -CRLfile "$1/crl.pem" "$2"
}
issued() { grep -c ^V "$1/index.txt"; }

# ---- an ordinary authority
D=$WORK/fleet
check "an authority is made" "$PKI" init "$D" --fleet lab
check "an operator is issued" "$PKI" operator "$D" eve
check "and verifies" verify "$D" "$D/operator-eve.pem"
cp "$D/operator-eve.pem" "$WORK/before.pem"
check "a second init does nothing" says 'nothing done' "$PKI" init "$D" --fleet lab
check "a second issue does nothing" says 'nothing done' "$PKI" operator "$D" eve
check "the certificate is the same" cmp "$WORK/before.pem" "$D/operator-eve.pem"
check "keys are readable by their owner only" \
    test "$(stat -c %a "$D/ca.key" "$D/operator-eve.key" | tr '\n' ' ')" = "600 600 "
check "another fleet's name is refused" says 'already the authority' "$PKI" init "$D" --fleet other
check "an address cannot smuggle in a name" exits_with 2 "$PKI" host "$D" h --dns "a,URI:x"

# ---- revoking
"$PKI" operator "$D" twice >/dev/null
cp "$D/operator-twice.pem" "$WORK/lost.pem"
"$PKI" operator "$D" twice --force >/dev/null
"$PKI" host "$D" twice >/dev/null
check "revoking an operator whose certificate was issued again" "$PKI" revoke "$D" operator twice
check "revokes the new one" not verify "$D" "$D/operator-twice.pem"
check "and the old one, whose key may be lost" not verify "$D" "$WORK/lost.pem"
check "but not a host of the same name" verify "$D" "$D/host-twice.pem"
check "and not others" verify "$D" "$D/operator-eve.pem"
check "revoking again is no failure" says 'already revoked' "$PKI" revoke "$D" operator twice

# ---- many at once
many() {
    local n pids=() rc=0
    for n in $(seq 12); do
        "$PKI" operator "$D" "many$n" >>"$WORK/many.log" 2>&1 &
        pids+=($!)
    done
    for n in "${pids[@]}"; do wait "$n" || rc=1; done
    return $rc
}
before=$(issued "$D")
check "twelve at the same time are issued" many
check "and the authority knows them all" test "$(issued "$D")" -eq $((before + 12))

# ---- to where perfleet looks for it
H=$WORK/home
mkdir "$H"
install_as() { env -u XDG_CONFIG_HOME HOME="$H" "$PKI" operator "$D" "$@"; }
check "an operator's files go where perfleet finds them" install_as dora --install --relay meet1.example.com
check "the certificate is the operator's" cmp "$D/operator-dora.pem" "$H/.config/perfleet/cert.pem"
check "nobody else reads them" test "$(stat -c %a "$H/.config/perfleet" "$H/.config/perfleet"/* | tr '\n' ' ')" = \
    "700 600 600 600 600 "
check "the relay is set" grep -qx 'relay: "meet1.example.com"' "$H/.config/perfleet/perfleet.conf"
check "again changes nothing" install_as dora --install --relay meet1.example.com
check "there is one line of it" test "$(wc -l <"$H/.config/perfleet/perfleet.conf")" -eq 1
check "another relay is not set beside it" says 'has another relay' install_as dora --install --relay meet2.example.com
check "another's certificate stays" says 'is another certificate' install_as eve --install
check "unless it is to be replaced" eval 'install_as eve --install --force && cmp "$D/operator-eve.pem" "$H/.config/perfleet/cert.pem"'
check "a host's are not for the operator's folder" exits_with 2 "$PKI" host "$D" h1 --install

# ---- to the relay's machine, with a word in place of ssh that stays here
mkdir -p "$WORK/fake" "$WORK/meet/perfleet/relay"
cat >"$WORK/fake/ssh" <<END
#!/bin/bash
[ "\$1" = -- ] && [ "\$2" = root@meet1.example.com ] || exit 255
sh -c "\${3//\/etc/$WORK/meet}"
END
for tool in systemctl systemd-tmpfiles; do
    printf '#!/bin/sh\necho "%s $*" >>"%s"\n' $tool "$WORK/meet/said" >"$WORK/fake/$tool"
done
chmod 755 "$WORK"/fake/*
to_relay() { PATH=$WORK/fake:$PATH "$PKI" relay "$D" meet1 --dns meet1.example.com --ssh "$@"; }
check "a relay's files go to its machine" to_relay root@meet1.example.com
check "its certificate" cmp "$D/relay-meet1.pem" "$WORK/meet/perfleet/relay/cert.pem"
check "nobody else reads its key" test "$(stat -c %a "$WORK/meet/perfleet/relay/key.pem")" = 600
check "hosts' requests go to the signer" grep -q '^signer: ".*/signer.sock"$' "$WORK/meet/perfleet/relay.conf"
check "the relay is started" grep -qx 'systemctl restart perfleet-relay' "$WORK/meet/said"
check "again adds nothing" eval 'to_relay root@meet1.example.com && [ "$(wc -l <"$WORK/meet/perfleet/relay.conf")" -eq 1 ]'
check "a machine that cannot be reached is named" says 'elsewhere: not installed' to_relay elsewhere
check "and an option is none" exits_with 2 to_relay -oProxyCommand=x

# ---- the authority's key is kept elsewhere
mv "$D/ca.key" "$WORK/kept.key"
check "without the authority's key nothing is issued" says 'ca.key is missing' "$PKI" operator "$D" new
check "and init does not make another authority" says 'nothing done' "$PKI" init "$D" --fleet lab
check "the certificates still verify" verify "$D" "$D/operator-eve.pem"
mv "$WORK/kept.key" "$D/ca.key"
check "with the key back it goes on" "$PKI" operator "$D" new

# ---- odd folders
# shellcheck disable=SC2016
for odd in 'a b' 'dollar$HOME' 'hash#x' "quote'\"x" 'back\slash'; do
    check "a folder named $odd works" "$PKI" init "$WORK/$odd" --fleet lab
    check "and issues" "$PKI" host "$WORK/$odd" h --dns h.example --ip 127.0.0.1
    check "what verifies" verify "$WORK/$odd" "$WORK/$odd/host-h.pem"
done
mkdir "$WORK/cd"
check "CDPATH does not lead it astray" env CDPATH="$WORK" sh -c \
    "cd '$WORK/cd' && '$PKI' init fleet --fleet lab && test -e '$WORK/cd/fleet/ca.pem'"

# ---- tokens
token() { "$PKI" join-token "$D" "$@"; }
request() { # request TOKEN: as perfleet-agent join makes it
    local id secret
    IFS=: read -r _ _ _ id secret _ <<<"$1"
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -keyout /dev/null -out "$WORK/req.pem" 2>/dev/null
    printf 'perfleet-join 1\n%s\n%s\n' "$id" \
        "$(openssl dgst -sha256 -mac HMAC -macopt "hexkey:$secret" -r "$WORK/req.pem" | cut -d' ' -f1)"
    cat "$WORK/req.pem"
}
sign() { PATH="$WORK/fake:$PATH" "$PKI" sign "$D" <"$WORK/request"; }
mkdir "$WORK/fake"
cat >"$WORK/fake/openssl" <<TEXT
#!/bin/sh
echo "\$*" >>"$WORK/arguments"
[ "\$1" != ca ] || [ ! -e "$WORK/broken" ] || exit 1
exec "$(command -v openssl)" "\$@"
TEXT
chmod 755 "$WORK/fake/openssl"
for days in 0 -3 x 1000000 08; do
    check "a token for a certificate of $days days is not made" exits_with 2 token w --days "$days"
done
check "and it says what is wrong" says 'how long the certificate will be good' token w --days 0
T=$(token web1 --days 7)
request "$T" >"$WORK/request"
touch "$WORK/broken"
check "signing that fails says so to who asked" says '^refused: the signer could not sign' sign
rm "$WORK/broken"
check "and the token is still good" says '^ok$' sign
check "for the days that it names" not openssl x509 -in "$D/host-web1.pem" -noout -checkend $((8 * 86400))
check "and once" says 'it may have been used' sign
check "its secret was on no command line" not grep -q "$(cut -d: -f5 <<<"$T")" "$WORK/arguments"
check "though all of them were seen" grep -q '^dgst -sha256' "$WORK/arguments"
many_proofs() { # the proof is by hand: with any bytes
    local n
    for n in $(seq 5); do
        request "$(token "proof$n")" >"$WORK/request" && sign | grep -qx ok || return 1
    done
}
check "proofs with other secrets too" many_proofs

# ---- requests that are not what they say
signed_request() { # signed_request TOKEN FILE: a request of one's own making, with the proof of the token
    local id secret
    IFS=: read -r _ _ _ id secret _ <<<"$1"
    printf 'perfleet-join 1\n%s\n%s\n' "$id" \
        "$(openssl dgst -sha256 -mac HMAC -macopt "hexkey:$secret" -r "$2" | cut -d' ' -f1)"
    cat "$2"
}
of_key() { # of_key SUBJECT ALGORITHM...: a request of another kind of key
    openssl req -new -newkey "${@:2}" -nodes -subj "$1" -keyout /dev/null -out "$WORK/other.pem" 2>/dev/null
}
refused_for() { # refused_for WORDS: a new token's request of WORK/other.pem, which stays good
    local t
    t=$(token judged)
    signed_request "$t" "$WORK/other.pem" >"$WORK/request"
    says "^refused: $1" sign && test -e "$D/tokens/$(cut -d: -f4 <<<"$t")"
}
of_key "/CN=ASN1 OID: prime256v1" rsa:2048
check "a key is not P-256 by its subject's words" refused_for "the key is not ECDSA P-256"
of_key /CN=x ec -pkeyopt ec_paramgen_curve:P-384
check "nor is one of another curve" refused_for "the key is not ECDSA P-256"
of_key /CN=x ec -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:explicit
check "nor one with a curve of the applicant's own" refused_for "the key is not ECDSA P-256"
echo "-----BEGIN CERTIFICATE REQUEST-----" >"$WORK/other.pem"
check "what is no request is refused" refused_for "this is no PKCS #10 request"
of_key "/CN=verify OK" ec -pkeyopt ec_paramgen_curve:P-256
openssl req -in "$WORK/other.pem" -outform DER -out "$WORK/other.der"
python3 -c 'import sys; b = bytearray(open(sys.argv[1], "rb").read()); b[-3] ^= 1; open(sys.argv[1], "wb").write(b)' "$WORK/other.der"
openssl req -inform DER -in "$WORK/other.der" -out "$WORK/other.pem" 2>/dev/null
check "a request with a bad signature is refused" refused_for "the request is not signed by its key"

check "of 24 damaged requests each is refused, or certified for its own key and the token's name" \
    timeout 300 "$ROOT/tests/fuzz/signer_requests.py" --count 24

# ---- a host that is revoked has no way back
T=$(token gone)
U=$(token stays)
check "revoking a host that has not joined takes back its tokens" says '^token [0-9a-f]+: revoked' "$PKI" revoke "$D" host gone
request "$T" >"$WORK/request"
check "so that nobody joins with one" says 'there is no such token' sign
T=$(token back)
request "$T" >"$WORK/request"
sign | grep -qx ok
T=$(token back)
check "revoking one that has joined, too" says '^token [0-9a-f]+: revoked' "$PKI" revoke "$D" host back
request "$T" >"$WORK/request"
check "and it cannot come back" says 'there is no such token' sign
request "$U" >"$WORK/request"
check "tokens of others stay good" says '^ok$' sign
check "an authority without a fleet's name is not begun" exits_with 2 "$PKI" init "$WORK/nameless"
check "and leaves nothing" test ! -e "$WORK/nameless"

T=$(token late)
mkfifo "$WORK/fifo"
"$PKI" sign "$D" <"$WORK/fifo" >/dev/null 2>&1 &
exec 8>"$WORK/fifo"
has_work() { ls -d "$D"/work.* >/dev/null 2>&1; }
check "a signer that waits" wait_for 20 has_work
kill -ALRM $!
exec 8>&-
wait $!
check "and whose time is over keeps the token" test -e "$D/tokens/$(cut -d: -f4 <<<"$T")"
check "nothing temporary stays" not has_work
finish
