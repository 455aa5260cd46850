#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples for containers and Kubernetes say what deploy/README.md promises of them.

Usage: manifests.py [--self-test]

Of deploy/kubernetes: every name that is used is defined, every container is confined (no privilege escalation,
no capabilities, read-only root, limits, not root) but for the exceptions of EXCEPTIONS, every namespace denies what
it does not allow. Of deploy/containers: every service is confined, every build target is a stage, no stage that
is run is root's. With KUBERNETES_OPENAPI (the swagger.json of a Kubernetes release) every object is also held
against its schema, unknown fields being mistakes. Exit status: 0, or 1 with a line for each mistake.
"""
import copy
import json
import os
import pathlib
import re
import sys

try:
    import yaml
except ImportError:
    print('manifests: skipped: no python3-yaml')
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Secrets and groups are the operator's to make; README.md says how.
GIVEN = {('Secret', 'perfleet', f'perfleet-{name}-tls') for name in ('relay', 'collector')}
# container: (why it may be root, capabilities)
EXCEPTIONS = {
    'probes': {'SYS_PTRACE', 'DAC_READ_SEARCH', 'DAC_OVERRIDE', 'SYSLOG', 'SYS_ADMIN'},
    'folders': {'CHOWN'},
}


class Strict(yaml.SafeLoader):
    """A key given twice is a mistake."""

    def construct_mapping(self, node, deep=False):
        keys = [k.value for k, _ in node.value if k.tag != 'tag:yaml.org,2002:merge']
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f'{node.start_mark}: "{key}" twice')
        return super().construct_mapping(node, deep)


def load(path):
    return [d for d in yaml.load_all(path.read_text(), Strict) if d]


def check_container(container, pod_context, where):
    context = {**pod_context, **container.get('securityContext', {})}
    name = container['name']
    capabilities = context.get('capabilities', {})
    if context.get('allowPrivilegeEscalation') is not False:
        yield f'{where}: allowPrivilegeEscalation is not false'
    if context.get('readOnlyRootFilesystem') is not True:
        yield f'{where}: readOnlyRootFilesystem is not true'
    if capabilities.get('drop') != ['ALL']:
        yield f'{where}: capabilities are not dropped'
    if set(capabilities.get('add', [])) != EXCEPTIONS.get(name, set()):
        yield f'{where}: capabilities {capabilities.get("add")}'
    is_root = not context.get('runAsNonRoot') or not context.get('runAsUser')
    if is_root and name not in EXCEPTIONS:
        yield f'{where}: may run as root'
    if context.get('seccompProfile', {}).get('type') != 'RuntimeDefault':
        yield f'{where}: no seccomp profile'
    if 'memory' not in container.get('resources', {}).get('limits', {}):
        yield f'{where}: no memory limit'
    if container.get('securityContext', {}).get('privileged'):
        yield f'{where}: privileged'


def references(pod, namespace):
    yield 'ServiceAccount', namespace, pod['serviceAccountName']
    for volume in pod.get('volumes', []):
        if 'secret' in volume:
            yield 'Secret', namespace, volume['secret']['secretName']
        if 'configMap' in volume:
            yield 'ConfigMap', namespace, volume['configMap']['name']
        if 'persistentVolumeClaim' in volume:
            yield 'PersistentVolumeClaim', namespace, volume['persistentVolumeClaim']['claimName']


def check_pod(item, known):
    meta, template = item['metadata'], item['spec']['template']
    pod, where = template['spec'], f'{item["kind"]} {meta["name"]}'
    labels = template['metadata']['labels']
    if not item['spec']['selector']['matchLabels'].items() <= labels.items():
        yield f'{where}: its selector does not match its Pods'
    if pod.get('automountServiceAccountToken') is not False:
        yield f'{where}: has a token for the API server'
    for reference in references(pod, meta['namespace']):
        if reference not in known | GIVEN:
            yield f'{where}: {" ".join(reference)} is not defined'
    volumes = {v['name'] for v in pod.get('volumes', [])}
    for container in pod.get('initContainers', []) + pod['containers']:
        place = f'{where}, container {container["name"]}'
        yield from check_container(container, pod.get('securityContext', {}), place)
        for mount in container.get('volumeMounts', []):
            if mount['name'] not in volumes:
                yield f'{place}: no volume {mount["name"]}'
    used = {m['name'] for c in pod.get('initContainers', []) + pod['containers']
            for m in c.get('volumeMounts', [])}
    for name in volumes - used:
        yield f'{where}: volume {name} is not used'


def check_objects(objects):
    known = {(o['kind'], o['metadata'].get('namespace', ''), o['metadata']['name']) for o in objects}
    pods = [o for o in objects if o['kind'] in ('Deployment', 'DaemonSet')]
    labels = [(o['metadata']['namespace'], o['spec']['template']['metadata']['labels']) for o in pods]
    if len(known) != len(objects):
        yield 'an object is defined twice'
    for item in pods:
        yield from check_pod(item, known)
    for item in objects:
        space = item['metadata'].get('namespace')
        if space and ('Namespace', '', space) not in known:
            yield f'{item["kind"]} {item["metadata"]["name"]}: no namespace {space}'
        if item['kind'] == 'Namespace' and (
                'NetworkPolicy', item['metadata']['name'], 'default-deny') not in known:
            yield f'namespace {item["metadata"]["name"]} denies nothing'
        selector = None
        if item['kind'] == 'Service':
            selector = item['spec']['selector']
        elif item['kind'] == 'NetworkPolicy':
            selector = item['spec']['podSelector'].get('matchLabels')
        if selector and not any(s == space and selector.items() <= l.items() for s, l in labels):
            yield f'{item["kind"]} {item["metadata"]["name"]} selects no Pod'


def check_schema(objects, path):
    import jsonschema
    definitions = json.loads(pathlib.Path(path).read_text())['definitions']

    def tighten(schema):
        if isinstance(schema, dict):
            if isinstance(schema.get('properties'), dict):
                schema.setdefault('additionalProperties', False)
            for part in schema.values():
                tighten(part)
        elif isinstance(schema, list):
            for part in schema:
                tighten(part)

    kinds = {}
    for name, schema in definitions.items():
        if name.endswith('IntOrString'):
            definitions[name] = {'type': ['string', 'integer']}
        elif name.endswith('resource.Quantity'):
            definitions[name] = {'type': ['string', 'number']}
        tighten(definitions[name])
        for kind in schema.get('x-kubernetes-group-version-kind', []):
            group = kind['group'] + '/' if kind['group'] else ''
            if name.endswith('.' + kind['kind']):
                kinds[group + kind['version'], kind['kind']] = name
    for item in objects:
        name = kinds.get((item['apiVersion'], item['kind']))
        if name is None:
            yield f'{item["apiVersion"]} {item["kind"]} is unknown'
            continue
        schema = {'$ref': f'#/definitions/{name}', 'definitions': definitions}
        for error in jsonschema.Draft4Validator(schema).iter_errors(item):
            where = '.'.join(map(str, error.path))
            yield f'{item["kind"]} {item["metadata"]["name"]}: {where}: {error.message}'


def check_compose(compose, stages):
    for name, service in compose['services'].items():
        if service.get('cap_drop') != ['ALL'] or not service.get('read_only') or \
                service.get('security_opt') != ['no-new-privileges:true']:
            yield f'service {name} is not confined'
        target = service.get('build', {}).get('target')
        if target is not None and target not in stages:
            yield f'service {name}: no stage {target}'
        for volume in service.get('volumes', []):
            source = volume.split(':')[0]
            if not source.startswith('.') and source not in compose['volumes']:
                yield f'service {name}: no volume {source}'
        for other in service.get('depends_on', []):
            if other not in compose['services']:
                yield f'service {name}: no service {other}'


def read_stages(text):
    """Name of a stage: the user it runs as."""
    stages, name = {}, None
    for line in text.splitlines():
        match = re.match(r'FROM\s+\S+\s+AS\s+(\S+)', line)
        if match:
            name = match[1]
            stages[name] = None
        elif line.startswith('USER '):
            stages[name] = line.split()[1]
    return stages


def check_stages(stages):
    for name, user in stages.items():
        if name not in ('build', 'base', 'packages') and not re.fullmatch(r'6\d{4}:6\d{4}', user or ''):
            yield f'stage {name} runs as {user or "root"}'


def check_all():
    folder = ROOT / 'deploy/kubernetes'
    kustomization, = load(folder / 'kustomization.yaml')
    names = kustomization['resources']
    objects = [o for name in names for o in load(folder / name)]
    if set(names) | {'kustomization.yaml'} != {p.name for p in folder.glob('*.yaml')}:
        yield 'kustomization.yaml does not name every file'
    yield from check_objects(objects)
    schema = os.environ.get('KUBERNETES_OPENAPI')
    if schema:
        yield from check_schema(objects, schema)
    stages = read_stages((ROOT / 'deploy/containers/Containerfile').read_text())
    yield from check_stages(stages)
    yield from check_compose(load(ROOT / 'deploy/containers/compose.yaml')[0], stages)


def self_test():
    folder = ROOT / 'deploy/kubernetes'
    objects = [o for p in sorted(folder.glob('*.yaml')) if p.stem != 'kustomization' for o in load(p)]
    assert not list(check_objects(objects))

    def breaks(kind, change):
        broken = copy.deepcopy(objects)
        change(next(o for o in broken if o['kind'] == kind))
        return list(check_objects(broken))

    def pod(item):
        return item['spec']['template']['spec']

    assert breaks('Deployment', lambda o: pod(o)['containers'][0].pop('securityContext'))
    assert breaks('Deployment', lambda o: pod(o)['volumes'].pop())
    assert breaks('Deployment', lambda o: pod(o).update(serviceAccountName='nobody'))
    assert breaks('DaemonSet', lambda o: pod(o)['containers'][0]['securityContext'].update(runAsUser=0))
    assert breaks('DaemonSet', lambda o: pod(o)['containers'][1]['securityContext']['capabilities'][
        'add'].append('NET_ADMIN'))
    assert breaks('NetworkPolicy', lambda o: o['metadata'].update(name='other'))
    assert breaks('Service', lambda o: o['spec']['selector'].update(app='other'))
    assert list(check_stages({'host': None})) and not list(check_stages({'host': '64000:64000'}))
    try:
        list(yaml.load_all('a: 1\na: 2\n', Strict))
    except yaml.YAMLError:
        return
    raise AssertionError('a key given twice passes')


def main():
    if '--self-test' in sys.argv:
        self_test()
        return 0
    mistakes = list(check_all())
    for mistake in mistakes:
        print(f'manifests: {mistake}', file=sys.stderr)
    return 1 if mistakes else 0


if __name__ == '__main__':
    sys.exit(main())
