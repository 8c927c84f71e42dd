#!/usr/bin/env python3
"""
The reference pages list every route, command, header, reply field and error, once, and name nothing that does not exist.

    reference_protocols.py RATION SOURCE             checks docs/reference/ of this source folder against the program and the code
    reference_protocols.py --control RATION SOURCE   plants one mistake for each check; each must be reported

A check is a function in CHECKS. It is given the facts (what the program and the code say) and the pages (their texts),
and yields a sentence for each problem. Another page is checked by another function, with a row in PLANTS for its control.
"""
import dataclasses
import os
import re
import subprocess
import sys

PAGES = {"commands": "docs/reference/commands.md", "http": "docs/reference/http.md"}
PAGE_OF_PROTOCOL = {"resp": "commands", "http": "http"}

# An error that no client sees: the parser refuses such keys first.
UNSEEN_ERRORS = ("ERR the key is too long: at most 65535 bytes",)


@dataclasses.dataclass
class Facts:
    access: dict  # (protocol, name) -> access, as ration serve --access prints them; commands in capitals
    settings: set
    request_headers: set  # in lower case
    response_headers: set
    reply_fields: set  # of the Redis protocol
    check_fields: set  # of RATION.CHECK
    resp_errors: set


def read_access(ration):
    lines = subprocess.run([ration, "serve", "--access"], capture_output=True, text=True, check=True, timeout=20).stdout
    rows = [line.split("\t") for line in lines.splitlines()]
    return {(protocol, name.upper() if protocol == "resp" else name): access for protocol, name, access in rows}


def read_settings(ration):
    text = subprocess.run([ration, "serve", "--help"], capture_output=True, text=True, check=True, timeout=20).stdout
    return set(re.findall(r"--([a-z][a-z-]+)", text))


def read_sources(source, *folders):
    for folder in folders:
        path = os.path.join(source, "src", folder)
        for name in sorted(os.listdir(path)):
            if name.endswith((".c", ".h")):
                with open(os.path.join(path, name), encoding="utf-8") as file:
                    # one string literal may be written in several pieces; comments hold examples
                    text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
                    yield name, re.sub(r'"\s*(?:\\\n\s*)?"', "", text)


def read_headers(source):
    requests, responses = set(), set()
    for _, text in read_sources(source, "codec/http", "server/http"):
        requests.update(re.findall(r'ration_http_is\(&?\w+->name, "([a-z-]+)"\)', text))
        requests.update(re.findall(r'ration_http_header\([^,]+, "([a-z-]+)"\)', text))
        requests.update(re.findall(r'\{\{"([a-z-]+)", sizeof', text))
        requests.update(re.findall(r'"(x-forwarded-[a-z]+|x-real-ip|forwarded)"', text))
        responses.update(re.findall(r'"(?:\\r\\n)?([A-Z][A-Za-z]*(?:-[A-Za-z]+)*): ', text))
        responses.update(re.findall(r'#define FIELD_\w+\s+"([A-Za-z-]+)"', text))
        responses.update(re.findall(r'_problem_with\([^;]*?,\s*"([A-Z][A-Za-z-]+)",\s', text))
        if "F_CONNECTION_CLOSE" in text:  # read by llhttp
            requests.add("connection")
    return requests, responses


def read_reply_fields(source):
    fields, check_fields = set(), set()
    for name, text in read_sources(source, "codec/resp", "codec/json", "server/resp"):
        if name == "resp_batch.c":
            check_fields.update(re.findall(r'output, (?:version, )?"([a-z_]+)"', text))
        if name == "resp_admin.c":
            fields.update(re.findall(r'(?:write_bulk_text|write_count_field)\([^;]*?, "([a-z_]+)"', text))
        if name == "admin_answer.h":
            fields.update(re.findall(r"\bX\((\w+)\)", text))
    return fields | check_fields, check_fields


def read_resp_errors(source):
    kinds = "ERR|NOAUTH|WRONGPASS|NOPROTO|NOPERM|EXECABORT|WRONGTYPE"
    errors = set()
    for _, text in read_sources(source, "codec/resp", "server/resp"):
        errors.update(re.findall(rf'"((?:{kinds}) [^"%]{{4,}})', text))
    return {error.replace("\\'", "'") for error in errors if not error.startswith(UNSEEN_ERRORS)}


def read_facts(ration, source):
    requests, responses = read_headers(source)
    return Facts(read_access(ration), read_settings(ration), requests, responses,
                 *read_reply_fields(source), read_resp_errors(source))


def without_code(page):
    return re.sub(r"^```.*?^```$", "", page, flags=re.M | re.S)


def headings(page):
    """The headings of a page, each with the text below it up to the next one."""
    parts = re.split(r"^#+ (.*)\n", without_code(page), flags=re.M)
    return list(zip(parts[1::2], parts[2::2]))


def tables(page):
    """The tables of a page: the first row, and the others, as lists of cells."""
    for table in re.findall(r"(?:^\|.*\n)+", without_code(page), flags=re.M):
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()]
        yield rows[0], rows[2:]


def table_of(page, heading, first_cell):
    for title, text in headings(page):
        if title == heading:
            for head, rows in tables(text):
                if head[0] == first_cell:
                    return rows
    return []


def code_words(cell):
    """The code spans of a cell: `X-A`, `X-B`."""
    return re.findall(r"`([^`]+)`", cell)


def check_places(facts, pages):
    """Each route and each command has one place of its own: a heading or the first cell of a table row, with its access."""
    for (protocol, name), access in facts.access.items():
        page = pages[PAGE_OF_PROTOCOL[protocol]]
        places = [re.findall(r"\bAccess:\s(\w+)", text) for title, text in headings(page) if title == name]
        for _, rows in tables(page):
            places += [[row[1]] for row in rows if re.match(rf"`{re.escape(name)}[` ]", row[0])]
        if len(places) != 1:
            yield f"{name} has {len(places)} places in {PAGES[PAGE_OF_PROTOCOL[protocol]]}, not one"
        elif places[0] != [access]:
            yield f"{name} needs access {access}; the page says {', '.join(places[0]) or 'nothing'}"


def check_existence(facts, pages):
    """What a heading or a row names exists."""
    commands = {name for protocol, name in facts.access if protocol == "resp"}
    routes = {name for protocol, name in facts.access if protocol == "http"}
    for title, _ in headings(pages["commands"]):
        for name in re.findall(r"\b[A-Z]{2,}(?:\.[A-Z]+)?\b(?!\d)", title):
            if name not in commands:
                yield f"there is no command {name}, which is a heading"
    for row in table_of(pages["commands"], "Other commands", "command"):
        name = code_words(row[0])[0].split()[0]
        if name not in commands:
            yield f"there is no command {name}, which has a row"
    for title, _ in headings(pages["http"]):
        if re.match(r"[A-Z]+ /", title) and title not in routes:
            yield f"there is no route {title}, which is a heading"


def check_overviews(facts, pages):
    """The table at the top of each page has every route and command."""
    for (protocol, name), _ in facts.access.items():
        _, rows = next(tables(pages[PAGE_OF_PROTOCOL[protocol]]))
        listed = {word for row in rows for cell in row for word in code_words(cell)}
        _, others = (None, table_of(pages["commands"], "Other commands", "command"))
        listed |= {code_words(row[0])[0].split()[0] for row in others}
        if name not in listed:
            yield f"the first table of {PAGES[PAGE_OF_PROTOCOL[protocol]]} lacks {name}"


def check_headers(facts, pages):
    """Two tables of headers: those read and those written, each once."""
    for heading, wanted in (("Request headers", facts.request_headers),
                            ("Response headers", {name.lower() for name in facts.response_headers})):
        listed = [word.lower() for row in table_of(pages["http"], heading, "header") for word in code_words(row[0])]
        for name in sorted(wanted - set(listed)):
            yield f"{heading}: {name} is missing"
        for name in sorted({name for name in listed if listed.count(name) > 1}):
            yield f"{heading}: {name} is listed twice"
    for heading, verb, known in (("Request headers", "reads", facts.request_headers),
                                 ("Response headers", "writes", {name.lower() for name in facts.response_headers})):
        for row in table_of(pages["http"], heading, "header"):
            for name in code_words(row[0]):
                if name.lower() not in known:
                    yield f"{heading}: the server {verb} no {name}"


def check_reply_fields(facts, pages):
    """Each field of a reply is in a table, and each that a table names exists; RATION.CHECK has a table of its own."""
    listed = {word for _, rows in tables(pages["commands"]) for row in rows for word in code_words(row[0])}
    for name in sorted(facts.reply_fields - listed):
        yield f"the reply field {name} is in no table"
    for title, text in headings(pages["commands"]):
        rows = [row for head, rows in tables(text) if head[0] == "field" for row in rows]
        named = {word for row in rows for word in code_words(row[0])}
        for name in sorted(named - facts.reply_fields):
            yield f"{title}: there is no reply field {name}"
    named = {word for row in table_of(pages["commands"], "RATION.CHECK", "field") for word in code_words(row[0])}
    for name in sorted(facts.check_fields - named):
        yield f"RATION.CHECK: the reply field {name} is missing"
    for name in sorted(named - facts.check_fields):
        yield f"RATION.CHECK: there is no reply field {name}"


def check_errors(facts, pages):
    """Each error of the Redis protocol is on the page, at least with its beginning."""
    text = pages["commands"].replace("\\|", "|")
    for error in sorted(facts.resp_errors):
        if error[:32].rstrip(" '") not in text:
            yield f"the error is missing: {error}"


def check_settings(facts, pages):
    """Each setting that a table of bounds names exists."""
    for name, page in pages.items():
        for head, rows in tables(page):
            if "setting" not in head:
                continue
            for row in rows:
                for word in code_words(row[head.index("setting")]):
                    if word not in facts.settings:
                        yield f"{PAGES[name]}: there is no setting {word}"


CHECKS = (check_places, check_existence, check_overviews, check_headers, check_reply_fields, check_errors, check_settings)


def problems(facts, pages):
    return [problem for check in CHECKS for problem in check(facts, pages)]


def replace(page, before, after):
    def plant(facts, pages):
        del facts
        changed = pages[page].replace(before, after)
        assert changed != pages[page], f"nothing to replace: {before}"
        pages[page] = changed
    return plant


def add(field, fact, value=None):
    def plant(facts, pages):
        del pages
        facts_of = getattr(facts, field)
        if isinstance(facts_of, dict):
            facts_of[fact] = value
        else:
            facts_of.add(fact)
    return plant


# A planted mistake, and a part of the problem that must be reported.
PLANTS = (
    (replace("commands", "## RATION.TOP\n", "## The top\n"), "RATION.TOP has 0 places"),
    (replace("commands", "| `ECHO message` | check", "| `ECHOS message` | check"), "there is no command ECHOS"),
    (replace("commands", "| `ECHO message` | check", "| `ECHO message` | open"), "ECHO needs access check; the page says open"),
    (replace("commands", "## GCRA\n", "## GCRA\n\n## RATION.NEW\n"), "there is no command RATION.NEW"),
    (replace("http", "## POST /v1/peek\n", "## Peek\n"), "POST /v1/peek has 0 places"),
    (replace("http", "## GET /healthz\n", "## GET /livez\n"), "there is no route GET /livez"),
    (replace("http", "Access: open", "Access: check"), "GET / needs access open"),
    (replace("http", "| [`GET /metrics`](#get-metrics) ", "| metrics "), "lacks GET /metrics"),
    (add("access", ("http", "GET /v1/new"), "admin"), "GET /v1/new has 0 places"),
    (add("access", ("resp", "RATION.NEW"), "admin"), "RATION.NEW has 0 places"),
    (replace("http", "| `Expect` |", "| Expect |"), "Request headers: expect is missing"),
    (replace("http", "| `Expect` |", "| `Expect`, `Accept` |"), "Request headers: the server reads no Accept"),
    (replace("http", "| `Retry-After` |", "| `Retry-Later` |"), "the server writes no Retry-Later"),
    (replace("http", "| `X-RateLimit-Reset` |", "| `Date` |"), "date is listed twice"),
    (replace("commands", "| `degraded` |", "| degraded |"), "the reply field degraded"),
    (replace("commands", "| `degraded` |", "| `count` |"), "RATION.CHECK: the reply field degraded is missing"),
    (replace("commands", "| `degraded` |", "| `count` |"), "RATION.CHECK: there is no reply field count"),
    (replace("commands", "| `keys_max` |", "| `keys_max`, `keys_min` |"), "RATION.LIMITS: there is no reply field keys_min"),
    (add("check_fields", "reason"), "RATION.CHECK: the reply field reason is missing"),
    (replace("commands", "ERR DISCARD without MULTI", "ERR"), "the error is missing: ERR DISCARD without MULTI"),
    (replace("http", "| `max-body-size` |", "| `max-body-sizes` |"), "there is no setting max-body-sizes"),
)


def read_pages(source):
    pages = {}
    for name, path in PAGES.items():
        with open(os.path.join(source, path), encoding="utf-8") as file:
            pages[name] = file.read()
    return pages


def run_control(facts, pages):
    missed = [words for plant, words in PLANTS if not any(words in problem for problem in planted(facts, pages, plant))]
    for words in missed:
        print(f"a planted mistake was not reported: {words}")
    print(f"{len(PLANTS)} planted mistakes, {len(missed)} not reported")
    return 1 if missed else 0


def planted(facts, pages, plant):
    """The problems of copies with the mistake."""
    fields = {field.name: getattr(facts, field.name).copy() for field in dataclasses.fields(facts)}
    copy, copies = Facts(**fields), dict(pages)
    plant(copy, copies)
    return problems(copy, copies)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--control"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    facts, pages = read_facts(*arguments), read_pages(arguments[1])
    for field in dataclasses.fields(facts):
        if len(getattr(facts, field.name)) < 5:
            sys.exit(f"hardly any {field.name} were found: the way in which they are read is outdated")
    if "--control" in sys.argv[1:]:
        sys.exit(run_control(facts, pages))
    found = problems(facts, pages)
    print("\n".join(found + [f"{len(facts.access)} routes and commands, {len(found)} problems"]))
    sys.exit(1 if found else 0)


main()
