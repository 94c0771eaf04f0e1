#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# usage: schemas.py CRD.yaml... >crds.json
#
# From the operators' CustomResourceDefinitions to the schemas that check.py needs: strict (unknown fields are errors),
# without descriptions, and with a reference to Kubernetes' own schema in place of each copy of a pod's, a job's or a
# variable's. Newer versions of the operators: fetch manifests/base/crds of kubeflow/trainer (PyTorchJob: branch
# release-1.9) and manifests/base of kubeflow/mpi-operator.
import json
import sys
from typing import Any

import yaml

CORE = "_definitions.json#/$defs/io.k8s.api."
COPIES = {
    frozenset({"metadata", "spec", "containers"}): CORE + "core.v1.PodTemplateSpec",
    frozenset({"metadata", "spec", "template"}): CORE + "batch.v1.JobTemplateSpec",
    frozenset({"name", "value", "valueFrom"}): CORE + "core.v1.EnvVar",
}


def copied_from(properties: dict[str, Any]) -> str | None:
    names = set(properties)
    if names == {"metadata", "spec"}:
        inner = properties["spec"].get("properties", {})
        names |= {"containers", "template"} & set(inner)
    return COPIES.get(frozenset(names))


def strict(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    properties = schema.get("properties")
    if properties and (reference := copied_from(properties)):
        return {"$ref": reference}
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["string", "integer"]}
    kept = {}
    for key in "type", "required", "enum", "minimum", "maximum", "pattern", "minItems", "maxItems":
        if key in schema:
            kept[key] = schema[key]
    if properties:
        kept["properties"] = {name: strict(value) for name, value in properties.items() if name != "status"}
        if "metadata" in properties and "apiVersion" in properties:
            kept["properties"]["metadata"] = {"$ref": "_definitions.json#/$defs/"
                                              "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
        kept["additionalProperties"] = False
    for key in "items", "additionalProperties":
        if isinstance(schema.get(key), dict):
            kept[key] = strict(schema[key])
    return kept


def main() -> None:
    schemas = {}
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            crd = yaml.safe_load(file)["spec"]
        for version in crd["versions"]:
            name = f"{crd['group']}/{version['name']}/{crd['names']['kind']}"
            schemas[name] = strict(version["schema"]["openAPIV3Schema"])
    lines = (f"{json.dumps(name)}: {json.dumps(schemas[name], sort_keys=True)}" for name in sorted(schemas))
    print("{\n" + ",\n".join(lines) + "\n}")


main()
