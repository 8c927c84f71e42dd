#!/usr/bin/env python3
"""
Links of the documentation lead somewhere: to a file of the project, and to a heading that it has.

    links.py SOURCE_FOLDER              reports each broken link, and each page that docs/README.md does not list
    links.py --control SOURCE_FOLDER    planted broken links are found
"""
import os
import re
import sys
import tempfile

LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|(?:href|src|srcset)=\"([^\"]+)\"")
OUTSIDE = ("http:", "https:", "mailto:")
TOPS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
INDEX = "docs/README.md"


def without_code(text):
    text = re.sub(r"^( {0,3})(`{3,}|~{3,}).*?^ {0,3}\2\s*$", lambda m: "\n" * m[0].count("\n"), text, flags=re.S | re.M)
    return re.sub(r"`[^`\n]*`", "", text)


def anchor_of(heading):
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def anchors(path):
    seen, found = {}, set()
    text = open(path, encoding="utf-8").read()
    code = re.sub(r"^( {0,3})(`{3,}|~{3,}).*?^ {0,3}\2\s*$", "", text, flags=re.S | re.M)
    for heading in re.findall(r"^#{1,6} (.*?)#*$", code, re.M):
        anchor = anchor_of(heading)
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        found.add(anchor if count == 0 else f"{anchor}-{count}")
    return found | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", code))


def pages(folder):
    for name in TOPS:
        if os.path.exists(f"{folder}/{name}"):
            yield name
    for place, _, names in os.walk(f"{folder}/docs"):
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.relpath(f"{place}/{name}", folder)


def links(folder, page):
    text = without_code(open(f"{folder}/{page}", encoding="utf-8").read())
    for match in LINK.finditer(text):
        target = (match[1] or match[2]).split()[0]
        if not target.startswith(OUTSIDE):
            yield text.count("\n", 0, match.start()) + 1, target


def check(folder):
    bad, listed = [], set()
    for page in pages(folder):
        for line, target in links(folder, page):
            name, _, anchor = target.partition("#")
            path = os.path.normpath(os.path.join(folder, os.path.dirname(page), name)) if name else f"{folder}/{page}"
            if page == INDEX:
                listed.add(os.path.relpath(path, folder))
            if not os.path.exists(path):
                bad.append(f"{page}:{line}: {target}: there is no such file")
            elif anchor and path.endswith(".md") and anchor not in anchors(path):
                bad.append(f"{page}:{line}: {target}: the page has no such heading")
    for page in pages(folder):
        if page.startswith("docs/") and page != INDEX and page not in listed:
            bad.append(f"{page}: {INDEX} does not list it")
    print("\n".join(bad + [f"{len(bad)} mistakes"]))
    return 1 if bad else 0


def control():
    good = "# One page\n\n[here](#one-page), [there](docs/other.md#two-b), [out](https://example.org)\n```text\n[no](link)\n```\n"
    other = "# Other\n## two b\n[back](../README.md)\n"
    index = "[Other](other.md)\n"
    plants = {
        "a correct tree": (good, other, index, 0),
        "a missing file": (good + "[x](docs/none.md)\n", other, index, 1),
        "a missing heading": (good + "[x](docs/other.md#three)\n", other, index, 1),
        "a missing heading of the same page": (good + "[x](#none)\n", other, index, 1),
        "a missing picture": (good + '<img src="docs/none.svg">\n', other, index, 1),
        "a page that is not listed": (good, other, "", 1),
    }
    missed = []
    for name, (readme, page, listing, status) in plants.items():
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/docs")
            for path, text in (("README.md", readme), ("docs/other.md", page), (INDEX, listing)):
                with open(f"{folder}/{path}", "w", encoding="utf-8") as file:
                    file.write(text)
            if check(folder) != status:
                missed.append(f"control: {name}")
    print("\n".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(control() if sys.argv[1] == "--control" else check(sys.argv[1]))
