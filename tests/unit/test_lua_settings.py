"""The submission scripts read the site's settings.toml, the same as everything else does."""

import tomllib
from dataclasses import fields
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lua_host import VERSIONS, LuaHost, to_python

from slurm_failover.settings.tables import FailoverSettings

HOSTS = {version: LuaHost(version) for version in VERSIONS}
TOML = {version: host.load("slurm_failover_toml") for version, host in HOSTS.items()}
SETTINGS = {version: host.load("slurm_failover_settings") for version, host in HOSTS.items()}
LUA_ERRORS = tuple(import_module(f"lupa.{version}").LuaError for version in VERSIONS)

DOCUMENT = r'''
top = 1 # a comment with "quotes" and [brackets]
title = "TOML \"quoted\" \u00e9 \u20ac \U0001F600 \t\\"
literal = 'C:\no\escapes # here'
"a key" = true
'other.key' = false
long = """
first
second ""quoted"" \
    joined"""""
raw = \'\'\'
[failover]
max_retries = 99
\'\'\'
many = [
  "a", # one
  'b',
  ["c", 1_000],
]
empty = []
point = { x = -1, y.z = +2, list = ["q"] }

[failover] # ours
max_retries=7
spot_partitions = [ "cheap*" , 'x' ]
a.b.c = "deep"

[ "quoted table" . sub ]
ok = "yes"

[[nodes]]
name = "n1"
[[nodes]]
name = "n2"
[nodes.more]
k = 1
'''.replace("\\'", "'")

scalars = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"))),
    st.integers(-(10**12), 10**12),
    st.booleans(),
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
keys = st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True).filter(lambda key: not key.isdigit())


def written(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return str(value)


def same(value):
    """Python's value as Lua can tell it: an empty table is neither list nor dict."""
    if isinstance(value, dict):
        return {key: same(item) for key, item in value.items()} or []
    return [same(item) for item in value] if isinstance(value, list) else value


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


def test_a_document_with_every_kind_of_syntax_reads_as_in_python(version):
    assert to_python(TOML[version].read(DOCUMENT)) == same(tomllib.loads(DOCUMENT))


@given(st.dictionaries(keys, st.dictionaries(keys, values, max_size=4), max_size=4))
def test_any_tables_of_values_read_as_in_python(tables):
    lines = []
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {written(value)}" for key, value in table.items())]
    text = "\n".join(lines)
    for toml in TOML.values():
        assert to_python(toml.read(text)) == same(tomllib.loads(text))


@given(st.text(st.sampled_from("[]{}\"'=#.,\\ \n\r\tab1-_u")))
def test_any_text_is_read_or_refused_with_its_line(text):
    for toml in TOML.values():
        try:
            toml.read(text)
        except LUA_ERRORS as error:
            assert "line " in str(error), text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[failover]\nmax_retries =", "/s.toml: line 2: expected a value"),
        ('[failover]\nx = "open', "/s.toml: line 2: a string without its closing quote"),
        ("[failover\n", "/s.toml: line 1: expected ] at the end of the table's name"),
        ("\n\nfailover 3\n", "/s.toml: line 3: expected = after the key"),
        ("x = 1 2\n", "/s.toml: line 1: expected the end of the line"),
        ('[failover]\nmax_retries = "3"', "/s.toml: [failover] max_retries must be a whole number"),
        ("[failover]\nmax_retries = 1.5", "/s.toml: [failover] max_retries must be a whole number"),
        ("[failover]\nmax_retries = 0", "/s.toml: [failover] max_retries must be a whole number"),
        ('[failover]\nspot_qos = "x"', "/s.toml: [failover] spot_qos must be a list of strings"),
        ("[failover]\nspot_qos = [1]", "/s.toml: [failover] spot_qos must be a list of strings"),
        ("[failover]\nspot_qos = 1.5", "/s.toml: [failover] spot_qos must be a list of strings"),
        ("failover = 3", "/s.toml: failover must be a table"),
    ],
)
def test_a_wrong_file_is_named_with_line_or_key(version, text, complaint):
    with pytest.raises(Exception, match=r"/s\.toml") as caught:
        SETTINGS[version].parse(text, "/s.toml")
    assert complaint in str(caught.value)


def test_what_the_file_leaves_out_has_its_default(version):
    site = to_python(SETTINGS[version].parse('[failover]\nspot_qos = ["cheap"]', "s"))
    assert site["spot_qos"] == ["cheap"]
    assert site["max_retries"] == 3


def test_the_defaults_are_those_of_the_python_side(version):
    python = {field.name: field.default for field in fields(FailoverSettings)}
    for key, value in to_python(SETTINGS[version].parse("", "s")).items():
        if key in python:
            expected = python[key]
            assert value == (list(expected) if isinstance(expected, tuple) else expected)
    assert "max_retries" in python


def test_without_a_file_the_defaults_apply_in_silence(version, tmp_path):
    settings = SETTINGS[version]
    settings.path = str(tmp_path / "absent.toml")
    site, problem = settings.load()
    assert (site.max_retries, problem) == (3, None)


def test_with_a_broken_file_the_defaults_apply_and_the_file_is_named(version, tmp_path):
    settings = SETTINGS[version]
    path = tmp_path / "settings.toml"
    path.write_text("[failover]\nmax_retries = 9\nnonsense\n")
    settings.path = str(path)
    site, problem = settings.load()
    assert site.max_retries == 3
    assert problem == f"{path}: line 3: expected = after the key"
