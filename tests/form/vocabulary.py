#!/usr/bin/env python3
"""
One word for one thing: the private words of early versions do not come back.

    vocabulary.py SOURCE_FOLDER             reports each old word in the code, the documents, the man pages and the help
    vocabulary.py --control SOURCE_FOLDER   every row finds its own planted sentence, in a file of each kind it covers

CODE rows look at identifiers, comments and documents, NAME rows at identifiers only. TEXT rows look at what people read:
comments, string literals and documents; USER rows only at what a user reads: string literals and documents.

In tests/ all rows but the USER rows apply. The name of a test case is a sentence: TEXT rows look at it, NAME rows do not.
Inputs of fuzz targets and this file, which must have the old words, are left out.
"""
import os
import re
import sys
import tempfile

CODE, NAME, TEXT, USER = "code", "name", "text", "user"

# (what it covers, old word, word to use, a planted sentence)
ROWS = [
    (CODE, r"gates?", "engine", "ration_gate_check(gate)"),
    (CODE, r"ration_visit(_enter|_leave)?", "ration_engine_guard", "ration_visit_enter(gate)"),
    (CODE, r"keyers?", "key function", "the keyer of a limit"),
    (CODE, r"choosers?", "limit function", "a chooser"),
    (CODE, r"tickets?", "reservation", "struct ration_ticket"),
    (CODE, r"is_tried", "has_connected", "link_is_tried(link)"),
    (CODE, r"trouble", "last_error", "the trouble of a link"),
    (CODE, r"EUNFIT|unfit", "RATION_EUNSUPPORTED", "return RATION_EUNFIT;"),
    (CODE, r"tells_redis_time", "sends_time", "bool tells_redis_time;"),
    (CODE, r"desks?|loop_part", "worker", "struct desk *desk;"),
    (CODE, r"near_own", "local_bucket", "near_own_take()"),
    (CODE, r"pockets?|leftovers?", "lease, unused tokens", "the pocket holds a leftover"),
    (CODE, r"beliefs?", "denial_ttl", "belief_ns"),
    (CODE, r"tally|tallies", "stats", "struct tally"),
    (CODE, r"hush", "suppress_reply", "bool hush;"),
    (CODE, r"spoiled", "multi_aborted", "is_spoiled"),
    (CODE, r"errands?|parcels?", "redis_request", "errand_send(parcel)"),
    (CODE, r"newborn|reborn|unborn", "the slot's condition", "is_newborn"),
    (CODE, r"quick", "fast", "quick_section(); ration_quick_check()"),
    (CODE, r"preset_(text|value)|settings_preset", "default", "char *preset_text;"),
    (CODE, r"is_look", "is_peek", "bool is_look;"),
    (CODE, r"edit_begin|edited", "admin operation", "ration_engine_edit_begin()"),
    (CODE, r"engine_link", "connection", "ration_engine_link_free(link)"),
    (CODE, r"answer_plainly", "answer_without_limits", "answer_plainly(request)"),
    (CODE, r"find_doubt", "find_header_conflict", "find_doubt(head)"),
    (CODE, r"wishes", "options", "struct limiter_wishes wishes;"),
    (CODE, r"throttle_(keys|max|limit)", "inline limits", "throttle_keys"),
    (NAME, r"tells?|told", "report, write_reply, notify; result", "tell_fault(told)"),
    (NAME, r"looks?(?!_up)", "peek", "int look;"),
    (NAME, r"force", "charge", "ration_bucket_force()"),
    (NAME, r"owes?|collects?(?!_fields)", "report_debt, drain_debt", "owe_tokens()"),
    (NAME, r"hold_until|let_go", "block, unblock", "let_go(key)"),
    (NAME, r"ending|endings", "close_reason", "enum ending ending;"),
    (NAME, r"transfer(?!_encoding)", "io", "transfer_read()"),
    (NAME, r"grace", "epoch", "ration_grace_enter()"),
    (NAME, r"near(_note|_lease|_take)?(?!_(limit|burst))", "local_cache, cache_entry", "near_note_find()"),
    (NAME, r"(?<!load_keys_)draws?|portions?", "acquire, grant", "draw_portion()"),
    (NAME, r"spots?", "key_location", "struct spot *spot;"),
    (NAME, r"seats?", "commit descriptor", "seat_count"),
    (NAME, r"entrances?|withdraw", "claim, claim_abort", "withdraw(entrance)"),
    (NAME, r"overflow_note|set_note", "overflow watermark, set_meta", "overflow_note"),
    (NAME, r"least|preset", "min, default", "int preset;"),
    (NAME, r"later_of|at_most|larger_of", "max_u64, min_u64", "at_most(a, b)"),
    (NAME, r"pace|rest_max", "backoff", "struct pace pace;"),
    (NAME, r"stands", "is_current", "bool stands;"),
    (NAME, r"manner", "send_options", "struct manner manner;"),
    (NAME, r"loop_hold|held|is_hushed", "pause, paused", "bool held;"),
    (TEXT, r"anew", "again", "the table is made anew"),
    (TEXT, r"mend(s|ed|ing)?", "fix", "mend the policy"),
    (TEXT, r"strangers?", "untrusted clients", "open to strangers"),
    (TEXT, r"whoever", "the client, the caller, the node", "whoever asks first"),
    (TEXT, r"told", "reported", "the wait it was told"),
    (TEXT, r"tells?(?!(\s+\w+){0,2}\s+apart|\s+from)", "reports, the response says", "the response tells how long"),
    (TEXT, r"(go|goes|went|going) on", "proceed, continue", "the loop goes on"),
    (TEXT, r"(redis|server|node|client|it) (is|was|are|goes) away", "unavailable", "while Redis is away"),
    (TEXT, r"(?<!page )(?<!injected )(?<!bus )faults?(?! (injection|matrix))", "error", "a fault of the policy"),
    (USER, r"deadlines?(?!_ns)", "timeout", "the deadline of a call"),
    (USER, r"in debt", "in use", "keys in debt"),
    (USER, r"(request|response|reply)('s)? heads?", "headers", "the request head"),
    (USER, r"state (was|is|could not be|cannot be) kept|kept the state", "saved", "the state could not be kept"),
    (USER, r"(has|have|had|without) (a|no) place", "slot", "keys have no place"),
    (USER, r"(server|node) is ending|ending: \d", "shutting down", "the server is ending"),
    (USER, r"(redis|server|connection) (is|was) back(?! to)", "recovered", "Redis is back"),
    (USER, r"rest before", "retry delay", "the rest before a retry"),
    (USER, r"limits that come with requests|limits of requests", "inline limits", "limits that come with requests"),
    (USER, r"on_backend_error|redis-(rest|deadline|connect)(-max)?-ms|(connections|input|output|head-bytes|body-bytes)-max(?!-)"
           r"|open-to-strangers|throttle-keys|client-header(?!s)|(head|body|write|linger|drain|idle)-deadline(-ms)?",
     "the setting's present name", "pass --connections-max and --redis-rest-ms"),
    (USER, r"(was|is|were|as) said", "set, passed", "what the option was said"),
]

FOLDERS = ("src", "include", "docs", "man", "completions", "examples", "dist", "tools", "cmake")
FILES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "Makefile", "CMakeLists.txt")
SOURCES = (".c", ".h", ".lua")
DOCUMENTS = (".md", ".yaml", ".yml", ".svg", ".json", ".1", ".5", ".7", ".bash", ".fish", "_ration", ".in", ".conf", ".cfg",
             "Caddyfile", ".short", ".toml", ".py", ".sh", ".go", ".html", ".cmake", ".txt", "Makefile")

# In tests/: sources, with the strings and comments of their language, and files that are read as text.
SCRIPTS = (".py",)
MODELS = (".js", ".cc", ".pml")
TEXTS = (".md", ".yml", ".sh", ".sed", ".rows", ".txt", ".cmake", ".dict")
LEFT_OUT = ("tests/fuzz/corpus/", "tests/form/vocabulary.py")

# Other meanings of a word: (file, word).
ORDINARY = {
    ("CMakeLists.txt", "deadlines"),  # a file name
    ("tests/form/ci_workflow.py", "preset"),  # of CMake
    ("tests/docs/reference_c_api.py", "gate"),  # a name that does not exist, for the control
}

# A word in a sentence, or a part of an identifier.
PATTERNS = [(kind, re.compile(rf"(?:(?<![a-z])|(?<=\\[nt])){'(?:' + old + ')'}(?![a-z])", re.I), use, plant) for kind, old, use, plant in ROWS]

# All rows of a kind at once, as most files have no old word.
ANY = {one: re.compile(r"(?:(?<![a-z])|(?<=\\[nt]))(?:" + "|".join(old for kind, old, *_ in ROWS if kind == one) + r")(?![a-z])", re.I)
       for one in (CODE, NAME, TEXT, USER)}

STRING = re.compile(r'(?<!#include )"(?:[^"\\\n]|\\.)*"')
PATH = re.compile(r"[\w./-]*/[\w./-]+\.[ch]\b|`\w+_test`")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|--[^\n]*", re.S)
SCRIPT_TEXT = re.compile(r'"""(?:[^"]|"(?!""))*"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|\#[^\n]*')
CASE = re.compile(r"cmocka_unit_test(?:_setup_teardown)?\(\s*(\w+)|^def (test_\w+)", re.M)


def blank_except(text, *patterns):
    """The text with everything but the matches replaced by spaces, so that line numbers stay."""
    kept = [" " if c != "\n" else c for c in text]
    for pattern in patterns:
        for match in pattern.finditer(text):
            kept[match.start() : match.end()] = match[0]
    return "".join(kept)


def blank_matches(text, *patterns):
    """The text with the matches replaced by spaces."""
    for pattern in patterns:
        text = pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return text


def test_views(path, text):
    """The same for a file of tests/, without USER rows."""
    cases = {match[1] or match[2] for match in CASE.finditer(text)}
    case = re.compile(rf"\b({'|'.join(sorted(cases, key=len, reverse=True))})\b") if cases else None
    names = blank_matches(text, case) if cases else text
    if path.endswith(SCRIPTS):
        names, words = blank_matches(names, SCRIPT_TEXT), blank_except(text, SCRIPT_TEXT)
    elif path.endswith(SOURCES + MODELS):
        names, words = blank_matches(names, STRING, COMMENT), blank_except(text, STRING, COMMENT)
    else:
        names, words = "", text
    if cases and words != text:
        sentences = blank_except(text, case).replace("_", " ")
        words = "".join(s if w == " " else w for w, s in zip(words, sentences))
    return {CODE: text, NAME: names, TEXT: words, USER: ""}


def views(path, text):
    """What each kind of row looks at in a file."""
    if path.startswith("tests/"):
        return test_views(path, text)
    if not path.endswith(SOURCES):
        return {CODE: text, NAME: "", TEXT: text, USER: blank_matches(text, PATH)}
    return {
        CODE: text,
        NAME: blank_matches(text, STRING, COMMENT),
        TEXT: blank_except(text, STRING, COMMENT),
        USER: blank_except(text, STRING),
    }


def old_words(path, text, rows=PATTERNS):
    seen = views(path, text)
    suspect = {kind for kind in seen if ANY[kind].search(seen[kind])}
    for kind, pattern, use, _ in rows:
        if kind not in suspect:
            continue
        for match in pattern.finditer(seen[kind]):
            if (path, match[0].lower()) in ORDINARY:
                continue
            line = seen[kind].count("\n", 0, match.start()) + 1
            yield f'{path}:{line}: "{match[0]}": say {use}'


def tree(folder):
    for name in FILES:
        yield name
    for top in FOLDERS:
        for place, _, names in os.walk(f"{folder}/{top}"):
            for name in sorted(names):
                if name.endswith(SOURCES + DOCUMENTS):
                    yield os.path.relpath(f"{place}/{name}", folder)
    for place, _, names in os.walk(f"{folder}/tests"):
        for name in sorted(names):
            path = os.path.relpath(f"{place}/{name}", folder)
            if name.endswith(SOURCES + SCRIPTS + MODELS + TEXTS) and not path.startswith(LEFT_OUT):
                yield path


def check(folder):
    found = []
    for path in tree(folder):
        if os.path.exists(f"{folder}/{path}"):
            found += old_words(path, open(f"{folder}/{path}", encoding="utf-8").read())
    print("\n".join(found + [f"{len(found)} old words"]))
    return 1 if found else 0


def control():
    missed = []
    for row in PATTERNS:
        kind, _, _, plant = row
        planted = {}
        if kind in (CODE, NAME):
            planted["src/planted.c"] = plant
        if kind in (CODE, TEXT):
            planted["src/planted_comment.c"] = f"/* {plant} */"
        if kind != NAME:
            planted["docs/planted.md"] = plant
            planted["src/planted_string.c"] = f'puts("{plant}");'
        if kind in (CODE, NAME):
            planted["tests/planted_test.c"] = planted["tests/planted.py"] = planted["tests/planted.pml"] = plant
        if kind in (CODE, TEXT):
            sentence = re.sub(r"\W+", "_", plant)
            planted["tests/planted_comment_test.c"] = f"/* {plant} */"
            planted["tests/planted_string_test.c"] = f'fail_msg("{plant}");'
            planted["tests/planted_case_test.c"] = f"cmocka_unit_test({sentence}),"
            planted["tests/planted_case.py"] = f"def test_{sentence}():"
            planted["tests/planted_docstring.py"] = f'"""{plant}"""'
            planted["tests/planted_comment.py"] = f"x = 1  # {plant}"
            planted["tests/planted.sh"] = f"# {plant}"
        for path, text in planted.items():
            if not list(old_words(path, text, [row])):
                missed.append(f"not found in {path}: {plant}")
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f"{folder}/man")
        with open(f"{folder}/man/planted.1", "w", encoding="utf-8") as page:
            page.write("A page that asks the gate.\n")
        if check(folder) == 0:
            missed.append("a man page with an old word passed")
        os.remove(f"{folder}/man/planted.1")
        os.makedirs(f"{folder}/tests/unit")
        os.makedirs(f"{folder}/tests/fuzz/corpus/resp")
        for path in ("tests/unit/CMakeLists.txt", "tests/fuzz/corpus/resp/input.txt"):
            with open(f"{folder}/{path}", "w", encoding="utf-8") as file:
                file.write("# whoever asks the gate\n")
        if list(tree(folder)) != [*FILES, "tests/unit/CMakeLists.txt"] or check(folder) == 0:
            missed.append("a file of tests/ with an old word passed, or an input of a fuzz target did not")
    print("\n".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(control() if sys.argv[1] == "--control" else check(sys.argv[1]))
