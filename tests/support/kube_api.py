#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""As much of a Kubernetes API server as kubectl's apply, create and get need, for a test of our manifests: it keeps
objects in memory, and refuses what a real one refuses of them: kinds that there are not, fields that a kind has not,
wrong types, missing fields, a namespace that nobody has made. What a kind has is what Debian's python3-kubernetes says,
which is made of the published schema of Kubernetes 1.22. Nothing is scheduled, nobody is asked who he is.

    kube_api.py PORT KUBECONFIG        PORT on 127.0.0.1; writes the file that kubectl wants, when it is there
"""
import base64
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kubernetes.client import models

# group: (path, its resources: kind, is in a namespace)
GROUPS = {
    "": ("/api/v1", {"namespaces": ("Namespace", False), "secrets": ("Secret", True), "services": ("Service", True),
                     "configmaps": ("ConfigMap", True), "serviceaccounts": ("ServiceAccount", True),
                     "persistentvolumeclaims": ("PersistentVolumeClaim", True)}),
    "apps": ("/apis/apps/v1", {"deployments": ("Deployment", True), "daemonsets": ("DaemonSet", True)}),
    "rbac.authorization.k8s.io": ("/apis/rbac.authorization.k8s.io/v1", {"roles": ("Role", True), "rolebindings": ("RoleBinding", True)}),
    "networking.k8s.io": ("/apis/networking.k8s.io/v1", {"networkpolicies": ("NetworkPolicy", True)}),
}
# What Kubernetes has got since: (model, field): type.
NEWER = {("V1SecurityContext", "appArmorProfile"): "object"}
SCALARS = {"str": str, "int": int, "bool": bool, "datetime": str, "float": (int, float)}


class Refused(Exception):
    def __init__(self, code, reason, message):
        Exception.__init__(self, message)
        self.code, self.reason = code, reason


def check_value(value, kind, where):
    """Problems of a value of this type, in openapi_types' words."""
    part = re.fullmatch(r"list\[(.*)\]|dict\(str, (.*)\)", kind)
    if kind == "object" or value is None:  # null is what is not there
        return
    if part:
        if not isinstance(value, list if part[1] else dict):
            yield "%s is not a %s" % (where, "list" if part[1] else "map")
            return
        for key, inner in enumerate(value) if part[1] else value.items():
            yield from check_value(inner, part[1] or part[2], "%s[%s]" % (where, key))
    elif kind in SCALARS:
        if not isinstance(value, SCALARS[kind]) or (isinstance(value, bool) and kind != "bool"):
            yield "%s is not %s" % (where, kind)
    else:
        yield from check_model(value, kind, where)


def check_model(value, name, where):
    if not isinstance(value, dict):
        yield "%s is not an object" % where
        return
    model = getattr(models, name)
    attributes = {wire: attribute for attribute, wire in model.attribute_map.items()}
    for key, inner in value.items():
        if key in attributes:
            yield from check_value(inner, model.openapi_types[attributes[key]], "%s.%s" % (where, key))
        elif (name, key) not in NEWER:
            yield 'unknown field "%s.%s"' % (where, key)
    try:
        model(**{attributes[key]: inner for key, inner in value.items() if key in attributes})
    except ValueError as e:
        yield "%s: %s" % (where, e)


def check_data(item):
    """What a Secret says is base64."""
    for key, text in (item.get("data") or {}).items() if item["kind"] == "Secret" else ():
        try:
            base64.b64decode(text, validate=True)
        except ValueError:
            yield "data.%s is not base64" % key


class Objects:
    def __init__(self):
        self.known, self.version = {}, 0

    def make(self, resource, space, kind, group, item):
        version = GROUPS[group][0].replace("/apis/", "").replace("/api/", "")
        if (item.get("kind"), item.get("apiVersion")) != (kind, version):
            raise Refused(400, "BadRequest", "this is no %s of %s" % (kind, version))
        problems = list(check_model(item, "V1" + kind, kind)) or list(check_data(item))
        if problems:
            raise Refused(400, "BadRequest", "strict decoding error: " + "; ".join(problems))
        if space and ("namespaces", None, space) not in self.known:
            raise Refused(404, "NotFound", 'namespaces "%s" not found' % space)
        name, key = item["metadata"]["name"], (resource, space, item["metadata"]["name"])
        if item["metadata"].get("namespace", space) != space:
            raise Refused(400, "BadRequest", "the namespace is not that of the request")
        if key in self.known:
            raise Refused(409, "AlreadyExists", '%s "%s" already exists' % (resource, name))
        self.version += 1
        item["metadata"].update(uid="00000000-0000-4000-8000-%012d" % self.version, resourceVersion=str(self.version),
                                creationTimestamp="2024-01-01T00:00:00Z")
        self.known[key] = item
        return item

    def get(self, resource, space, name):
        if (resource, space, name) not in self.known:
            raise Refused(404, "NotFound", '%s "%s" not found' % (resource, name))
        return self.known[(resource, space, name)]

    def list(self, resource, space, kind, version):
        items = [o for (r, s, _), o in self.known.items() if r == resource and space in (None, s)]
        return {"kind": kind + "List", "apiVersion": version, "metadata": {"resourceVersion": str(self.version)}, "items": items}


def fields(data):
    """(number, value) of the protobuf fields that have a length; no others are in what we read."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value
    while at < len(data):
        tag = varint()
        size = varint()
        if tag & 7 == 2:
            yield tag >> 3, data[at:at + size]
            at += size


def secret_of(data):
    """kubectl sends what it makes itself in Kubernetes' protobuf; `create secret` is all that we have of that."""
    whole = dict(fields(data[4:]))
    kind = dict(fields(whole[1]))
    if kind.get(2) != b"Secret":
        raise Refused(415, "UnsupportedMediaType", "only Secrets come in protobuf here")
    item = {"kind": "Secret", "apiVersion": kind[1].decode(), "metadata": {}, "data": {}}
    for number, value in fields(whole[2]):
        if number == 1:
            names = {1: "name", 3: "namespace"}
            item["metadata"] = {names[n]: v.decode() for n, v in fields(value) if n in names and v}
        elif number == 2:
            pair = dict(fields(value))
            item["data"][pair[1].decode()] = base64.b64encode(pair.get(2, b"")).decode()
        elif number == 3:
            item["type"] = value.decode()
    return item


OBJECTS = Objects()
VERBS = ["create", "delete", "get", "list", "patch", "update"]


def group_of(name):
    version = {"groupVersion": name + "/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def discovery(path):
    """What kubectl asks before anything else, or None."""
    if path == "/version":
        return {"major": "1", "minor": "22", "gitVersion": "v1.22.0"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group_of(name) for name in GROUPS if name]}
    for name, (place, resources) in GROUPS.items():
        if path == place:
            listed = [{"name": r, "singularName": kind.lower(), "namespaced": spaced, "kind": kind, "verbs": VERBS}
                      for r, (kind, spaced) in resources.items()]
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": (name + "/v1").lstrip("/"), "resources": listed}
    return None


def resource_of(path):
    """Of a path: group, resource, kind, namespace, name; the last two may be None."""
    for group, (place, resources) in GROUPS.items():
        found = re.fullmatch(re.escape(place) + r"(?:/namespaces/([^/]+)(?=/))?/([a-z]+)(?:/([^/]+))?", path)
        if found and found[2] in resources:
            return group, found[2], resources[found[2]][0], found[1], found[3]
    raise Refused(404, "NotFound", "the server could not find the requested resource")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, code, body, kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, e):
        self.answer(e.code, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": str(e),
                             "reason": e.reason, "code": e.code})

    def log_message(self, *args):
        pass

    def do_GET(self):
        path = self.path.split("?")[0]
        try:
            if path == "/openapi/v2":  # nothing: that the objects are right is the server's to say
                self.answer(200, b"", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
                return
            found = discovery(path)
            if found is None:
                group, resource, kind, space, name = resource_of(path)
                version = (group + "/v1").lstrip("/")
                found = OBJECTS.get(resource, space, name) if name else OBJECTS.list(resource, space, kind, version)
            self.answer(200, found)
        except Refused as e:
            self.refuse(e)

    def do_POST(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            item = secret_of(data) if data.startswith(b"k8s\0") else json.loads(data)
            group, resource, kind, space, _ = resource_of(self.path.split("?")[0])
            self.answer(201, OBJECTS.make(resource, space, kind, group, item))
        except Refused as e:
            self.refuse(e)

    def do_PATCH(self):  # of what is there and is not as wanted: our manifests are applied twice, unchanged
        self.refuse(Refused(405, "MethodNotAllowed", "objects that are there do not change here: " + self.path))


if __name__ == "__main__":
    SERVER = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    ADDRESS = "http://127.0.0.1:%d" % SERVER.server_port
    with open(sys.argv[2], "w", encoding="utf-8") as conf:
        conf.write(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "test", "users": [],
                               "clusters": [{"name": "test", "cluster": {"server": ADDRESS}}],
                               "contexts": [{"name": "test", "context": {"cluster": "test"}}]}))
    SERVER.serve_forever()
