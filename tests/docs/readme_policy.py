#!/usr/bin/env python3
"""
The policy that README.md shows is the built-in policy, and its curl example is the one that the server prints.

    readme_policy.py RATION SOURCE_FOLDER              RATION: the command
    readme_policy.py --control RATION SOURCE_FOLDER    another policy and another example are found
"""
import re
import subprocess
import sys

import yaml


def server_lines(ration):
    """What a server without a policy prints until it is ready."""
    with subprocess.Popen([ration, "serve", "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"],
                          stderr=subprocess.PIPE, text=True) as server:
        lines = []
        for line in server.stderr:
            lines.append(line)
            if "/metrics" in line:
                break
        server.terminate()
        return "".join(lines)


def check(readme, builtin, printed):
    bad = []
    policy = re.search(r"^```yaml file=policy.yaml\n(.*?)^```", readme, re.S | re.M)
    if policy is None:
        return ["README.md shows no policy"]
    shown, real = yaml.safe_load(policy[1])["limits"], yaml.safe_load(builtin)["limits"]
    if shown != real:
        bad.append(f"README.md shows {shown}, the built-in policy has {real}")
    target = r"127\.0\.0\.1:\d+(/v1/check\?[^' ]+)"
    offered = re.search(target, printed)
    if offered is None:
        bad.append(f"the server offers no check to try: {printed}")
    elif set(re.findall(target, readme)) != {offered[1]}:
        bad.append(f"README.md asks {set(re.findall(target, readme))}, the server offers {offered[1]}")
    return bad


def main(arguments):
    is_control = arguments[0] == "--control"
    ration, folder = arguments[is_control:]
    readme = open(f"{folder}/README.md", encoding="utf-8").read()
    builtin = open(f"{folder}/src/server/ops/builtin.yaml", encoding="utf-8").read()
    printed = server_lines(ration)
    if not is_control:
        bad = check(readme, builtin, printed)
        print("\n".join(bad))
        return 1 if bad else 0
    missed = [name for name, texts in {
        "another rate": (readme.replace("5/min", "6/min"), builtin, printed),
        "a limit more": (readme, builtin + "  - {name: more, rate: 1/s}\n", printed),
        "another example": (readme.replace("path=/login", "path=/signin"), builtin, printed),
        "no example of the server": (readme, builtin, ""),
        "no policy": ("", builtin, printed),
    }.items() if not check(*texts)]
    print("\n".join(f"not found: {name}" for name in missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
