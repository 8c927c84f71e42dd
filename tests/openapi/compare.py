#!/usr/bin/env python3
"""docs/openapi.yaml describes the server: the parser of checks accepts a body exactly if its schema does, and every
response matches its schema. With --control a schema is broken first, and the test must notice it.

    compare.py [--control] PROBE DOCUMENT
"""
import itertools, json, subprocess, sys

import jsonschema, yaml

control = sys.argv[1] == "--control"
probe, path = sys.argv[-2:]
document = yaml.safe_load(open(path, encoding="utf-8"))
errors = []


def plain(node):
    """Translates OpenAPI 3.0's nullable to JSON Schema."""
    if isinstance(node, list):
        return [plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {name: plain(item) for name, item in node.items()}
    if node.pop("nullable", False):
        node["type"] = [node["type"], "null"]
    return node


schemas = plain(document["components"]["schemas"])
if control:
    schemas["Check"]["properties"]["cost"] = {"type": "string"}
    schemas["Decision"]["required"].append("verdikt")


def validator(name):
    return jsonschema.Draft7Validator(
        {"$ref": "#/components/schemas/" + name, "components": {"schemas": schemas}})


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from references(item)


for reference in references(document):
    node = document
    for step in reference.removeprefix("#/").split("/"):
        node = node.get(step, {})
    if not node:
        errors.append(f"{reference} points nowhere")

ABSENT = object()
pool = {
    "attributes": [ABSENT, {}, {"a": "b", "c": 1, "d": True}, {"a": 1.5}, {"a": None}, []],
    "key": [ABSENT, "k", 7],
    "limit": [ABSENT, "10/s", {"tokens": 1, "period": "1s"}, {"tokens": 1, "period": 5, "burst": 2},
              {"tokens": 0, "period": 1}, {"tokens": 1}, {"tokens": 1, "period": 1, "x": 1}, 5],
}
extras = [{}, {"cost": 0}, {"cost": 3}, {"cost": -1}, {"cost": 1.5}, {"cost": "1"}, {"peek": True},
          {"peek": 1}, {"tokens": 2}, {"tokens": 0}, {"seconds": 60}, {"seconds": 0}, {"ns": 5},
          {"ns": 5, "seconds": 60}, {"seconds": 504576001}, {"ns": 504576000000000001}, {"x": 1}]
bodies = []
for attributes, key, limit, extra in itertools.product(*pool.values(), extras):
    body = {"attributes": attributes, "key": key, "limit": limit}
    bodies.append({n: v for n, v in body.items() if v is not ABSENT} | extra)
one = {"attributes": {}}
batches = [{"checks": checks} for checks in
           ([], [one], [one, {}], [one] * 1000, [one | {"cost": 2}, one | {"peek": True}], {}, [1])]
batches.append({"checks": [one], "cost": 1})

kinds = ["Check", "Peek", "Refund", "Reset", "Block"]
questions = [(kind, kinds[kind], body) for kind in range(len(kinds)) for body in bodies]
questions += [(kind, kinds[kind] + "Batch", body) for kind in (0, 1) for body in batches
              if len(json.dumps(body)) < 4000]
text = "".join(f"{kind} {json.dumps(body)}\n" for kind, _, body in questions)
answers = subprocess.run([probe, "read"], input=text, capture_output=True, text=True,
                         check=True).stdout.split()
assert len(answers) == len(questions)
accepted = 0
validators = {name: validator(name) for _, name, _ in questions}
for (_, name, body), answer in zip(questions, answers):
    accepted += answer == "ok"
    if validators[name].is_valid(body) != (answer == "ok"):
        errors.append(f"{name}: {json.dumps(body)} is {answer}, which is not what the schema says")
if accepted < 50:
    errors.append("hardly any body was read: the bodies are not what they should be")

for line in subprocess.run([probe, "write"], capture_output=True, text=True,
                           check=True).stdout.splitlines():
    name, text = line.split(" ", 1)
    for error in validator(name).iter_errors(json.loads(text)):
        errors.append(f"{name}: {text}: {error.message}")

embedded = subprocess.run([probe, "document"], capture_output=True, check=True).stdout
if embedded != open(path, "rb").read():
    errors.append("the document that is embedded is another one")

print("\n".join(errors[:20]), f"{len(questions)} bodies, {accepted} read, {len(errors)} errors",
      sep="\n")
sys.exit(bool(errors) != control)
