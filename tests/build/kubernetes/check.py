#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# usage: check.py MANIFEST...
#
# Checks the manifests of contrib/kubernetes: that their parts agree with each other, that pods without an sshd keep to
# the Pod Security Standard "restricted", and, where PyPI's kubernetes-validate is installed (tools/setup --gate), every
# field against Kubernetes' schemas, in strict mode, and those of the operators (crds.json, by schemas.py).
#
# The last lines are "N checked, M wrong", and before it "skipped: REASON" where a part was left out.
import json
import pathlib
import re
import sys
from typing import Any, Iterator

sys.path.append("/usr/local/lib/kubernetes-validate")
try:
    import yaml
except ImportError:
    print("skipped: no PyYAML to read manifests with")
    sys.exit(77)

checked = wrong = 0


def expect(condition: object, text: str) -> None:
    global checked, wrong
    checked += 1
    if not condition:
        wrong += 1
        print(f"wrong: {text}")


def pods(node: Any) -> Iterator[dict[str, Any]]:
    """Yields each pod's spec in a manifest."""
    if isinstance(node, dict):
        if "containers" in node:
            yield node
        for value in node.values():
            yield from pods(value)
    elif isinstance(node, list):
        for value in node:
            yield from pods(value)


def check_restricted(where: str, pod: dict[str, Any]) -> None:
    context = pod.get("securityContext", {})
    expect(context.get("runAsNonRoot") is True and context.get("runAsUser", 0) > 0, f"{where}: runs as root")
    expect(context.get("seccompProfile") == {"type": "RuntimeDefault"}, f"{where}: seccompProfile")
    for container in pod["containers"]:
        own = container.get("securityContext", {})
        expect(own.get("allowPrivilegeEscalation") is False, f"{where}: allowPrivilegeEscalation")
        expect(own.get("readOnlyRootFilesystem") is True, f"{where}: readOnlyRootFilesystem")
        expect(own.get("capabilities") == {"drop": ["ALL"]}, f"{where}: capabilities")
        mounts = {mount["name"] for mount in container.get("volumeMounts", [])}
        expect(mounts == {volume["name"] for volume in pod["volumes"]}, f"{where}: volumes and mounts differ")


def check_indexed_job(documents: list[dict[str, Any]]) -> None:
    secret, service, job = documents
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    container = pod["containers"][0]
    nodes = container["command"][container["command"].index("--nnodes") + 1]
    expect(spec["completionMode"] == "Indexed", "the Job is not Indexed")
    expect(nodes == str(spec["completions"]) == str(spec["parallelism"]), "--nnodes, completions, parallelism differ")
    expect(pod["subdomain"] == service["metadata"]["name"], "subdomain is not the Service's name")
    expect(service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"], "the Service")
    expect(service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}, "the Service selects other pods")
    expect(pod["restartPolicy"] == "Never", "podFailurePolicy needs restartPolicy: Never")
    reference = container["env"][0]["valueFrom"]["secretKeyRef"]
    expect(reference["name"] == secret["metadata"]["name"] and reference["key"] in secret["stringData"], "the Secret")
    expect(all(len(text) < 16 for text in secret["stringData"].values()), "halayrun accepts the Secret as it stands")
    rules = spec["podFailurePolicy"]["rules"]
    names = [rule["onExitCodes"]["containerName"] for rule in rules if "onExitCodes" in rule]
    expect(names == [container["name"]], "podFailurePolicy names another container")


def check_schemas(documents: list[tuple[str, dict[str, Any]]]) -> None:
    try:
        import jsonschema
        import kubernetes_validate
    except ImportError:
        print("skipped: no kubernetes-validate, so fields are not checked against schemas")
        return
    folder = pathlib.Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    strict = max(folder.glob("v*-local-strict"), key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)])
    definitions = (strict / "_definitions.json").read_text()
    operators = (pathlib.Path(__file__).parent / "crds.json").read_text().replace("_definitions.json#", "#")
    whole = json.loads(definitions.replace("_definitions.json#", "#"))
    for where, document in documents:
        group, _, version = document["apiVersion"].rpartition("/")
        kind = document["kind"]
        schema = json.loads(operators).get(f"{document['apiVersion']}/{kind}")
        if not schema:
            core = f"{group.removesuffix('.k8s.io') or 'core'}.{version}.{kind}"
            schema = {"$ref": f"#/$defs/io.k8s.api.{core}"}
        validator = jsonschema.Draft202012Validator({**schema, "$defs": whole["$defs"]})
        errors = [f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
                  for error in validator.iter_errors(document)]  # fmt: skip
        expect(not errors, f"{where}: {'; '.join(errors)[:600]}")


def main() -> int:
    documents = []
    for path in map(pathlib.Path, sys.argv[1:]):
        found = list(yaml.safe_load_all(path.read_text()))
        documents += [(f"{path.name}, {document.get('kind')}", document) for document in found]
        if path.name == "indexed-job.yaml":
            check_indexed_job(found)
    for where, document in documents:
        for pod in pods(document):
            if document["kind"] != "MPIJob":  # its pods have an sshd
                check_restricted(where, pod)
    check_schemas(documents)
    print(f"{checked} checked, {wrong} wrong")
    return wrong > 0


sys.exit(main())
