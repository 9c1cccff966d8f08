"""Writes testdata/chat/jinja_cases.json: small templates and what Jinja itself makes of them.

Usage: jinja_cases.py   (needs transformers, jinja2)

The environment is the one that transformers compiles chat templates with (sandboxed and immutable, trim_blocks,
lstrip_blocks, loop controls, its own tojson). Each case holds a template and either `expected` or `raises`, the name of
the Python exception. All cases share one set of values. Cases are listed by hand and, for operators, filters and
whitespace control, multiplied out.
"""

import copy
import itertools
import os
import random

from transformers.utils import chat_template_utils

import common

VALUES = {
    "messages": [
        {"role": "system", "content": "  Be brief.\n"},
        {"role": "user", "content": "Hi <|im_start|> there", "n": 3},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.5}}}]},
        {"role": "user", "content": "\u00fcber \U0001f600 na\u00efve \u4e16\u754c"},
    ],
    "t": True,
    "f": False,
    "n": None,
    "i": 7,
    "neg": -3,
    "x": 2.5,
    "big": 1e22,
    "tiny": 0.00001,
    "s": "Hello, World",
    "e": "",
    "ws": " \t pad ded \n",
    "lines": "one\ntwo\n\nfour",
    "quote": "it's \"so\" \\ \u00e9\t\u200b",
    "num": "42",
    "fnum": "3.75",
    "l": [3, 1, 2, 1],
    "ls": ["b", "A", "c", "a"],
    "d": {"b": 1, "a": {"items": [1, 2], "k": "v"}, "C": [True, None, 1.0]},
    "keyed": {"items": "key", "get": 1, "x y": 2},
    "objs": [{"a": 2, "n": {"m": "z"}}, {"a": 1, "n": {"m": "y"}}, {"b": 0}],
    "nested": [[1, 2], [3, [4, 5]], []],
}

HAND = r"""
{{ s }}|{{ missing }}|{{ n }}|{{ t }}|{{ i }}|{{ x }}|{{ big }}|{{ tiny }}|{{ l }}|{{ d }}|{{ quote }}
{{ [quote, e, ls, missing] }}
{{ (1,) }}{{ () }}{{ (1, 2) }}{{ 1, 2 }}{{ {} }}{{ [] }}
{{ {'a': 1, 2: 'x', none: true, 'a': 3} }}
{{ 'a' 'b' "c" }}
{{ 'tab\tnl\nq\'q\\ \x41\u00e9\U0001F600\101 \z' }}
{{ "it's" ~ 'q"q' }}
{{ ["it's", 'q"q', 'both\'"', '\x00\x7f\u200b'] }}
{{ 1_000 + 0x1F + 0b101 + 0o17 }}
{{ 1.5e3 }} {{ 1e-7 }} {{ 1e16 }} {{ 123456789012345680.0 }} {{ 0.1 + 0.2 }} {{ 100.0 }} {{ 1e22 }} {{ -0.0 }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 7 / 2 }} {{ 6 / 2 }}
{{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2.0 ** 3 }}
{{ 1 + 2 * 3 - 4 / 2 }} {{ (1 + 2) * 3 }} {{ 10 - 3 - 2 }} {{ 2 * 3 % 4 }}
{{ 'a' ~ 1 + 2 }}
{{ 1 ~ 2 ~ none ~ true ~ missing }}
{{ 'a' * 3 }}|{{ 3 * 'ab' }}|{{ 'a' * 0 }}|{{ 'a' * -1 }}|{{ [1] * 3 }}
{{ true + 1 }} {{ -true }} {{ +1.5 }} {{ - 3 }} {{ -i }} {{ -neg }}
{{ not true }} {{ not missing }} {{ not not 1 }}
{{ 1 and 2 }} {{ 0 and 2 }} {{ 0 or 'x' }} {{ 1 or 2 }} {{ none or false }} {{ not 1 or 2 and 3 }}
{{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 1 == 1.0 == true }} {{ 1 < 2 == true }} {{ 'a' < 'b' }}
{{ [1, 2] < [1, 3] }}
{{ 'a' in 'abc' }} {{ 'z' not in 'abc' }} {{ 1 in [1] }} {{ 'b' in d }} {{ 1.0 in l }}
{{ missing in l }} {{ 2 in missing }}
{{ none == missing }} {{ missing == missing2 }} {{ none is none }} {{ missing is none }}
{{ [] == () }} {{ {} == {} }}
{{ 'yes' if t else 'no' }} {{ 'yes' if f }} {{ 1 if f else 2 if f else 3 }}
{{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[:-7] }} {{ s[::2] }} {{ s[::-1] }} {{ s[20:] }}
{{ s[-100:3] }} {{ s[5:2:-1] }}
{{ messages[3].content[::-1] }} {{ messages[3].content[5] }} {{ messages[3].content[2:9] }}
{{ messages[3].content|length }}
{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ (1,2,3)[1:] }} {{ l[10:] }} {{ l[-2:] }}
{{ range(5)[1] }}
{{ messages[1:][0].role }} {{ messages[-1]['role'] }} {{ messages.0.role }} {{ messages[99] }}
{{ messages[0].nope }}
{{ messages[99].role }}
{{ missing.role }}
{{ missing['role'] }}
{{ missing() }}
{{ s() }}
{{ s.nope }}|{{ s.nope is defined }}
{{ s.nope() }}
{{ d.items() }} {{ d.keys() }} {{ d.values() }} {{ d.get('b') }} {{ d.get('zz') }} {{ d.get('zz', 5) }}
{{ keyed['items'] }} {{ keyed['x y'] }} {{ keyed.get('get') }} {{ keyed['get'] }}
{{ keyed.items is string }} {{ keyed.items is defined }} {{ keyed.items is callable }}
{{ keyed['zz'] is defined }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in d %}{{ k }},{% endfor %}{% for c in 'añb' %}{{ c }}-{% endfor %}
{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}|{% endfor %}
{% for x in l %}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}|{% endfor %}
{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}
{% for x in [] %}{{ x }}{% else %}none{% endfor %}{% for x in missing %}{{ x }}{% else %}none{% endfor %}
{% for x in l if x > 1 %}{{ x }}/{{ loop.index }}/{{ loop.length }} {% else %}none{% endfor %}
{% for x in l if x > 9 %}{{ x }}{% else %}none{% endfor %}
{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}
{% for x in l %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% else %}e{% endfor %}
{% for x in l %}{% for y in ls %}{{ y }}{% if y == 'A' %}{% break %}{% endif %}{% endfor %}{{ x }};{% endfor %}
{% set v = 1 %}{% for x in l %}{{ v }}{% set v = x %}{{ v }}{% endfor %}{{ v }}
{% set ns = namespace(v=1, w='a') %}{% for x in l %}{% set ns.v = ns.v + x %}{% endfor %}{{ ns.v }}{{ ns.w }}{{ ns.q }}
{% set ns = namespace() %}{% set ns.a = [] %}{% for x in l %}{% set ns.a = ns.a + [x] %}{% endfor %}{{ ns.a }}{{ ns }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = b, a %}{{ a }}{{ b }}
{% set (a, b), c = (1, 2), 3 %}{{ a }}{{ b }}{{ c }}
{% set ns = namespace() %}{% set a, ns.b = 1, 2 %}{{ a }}{{ ns.b }}
{% set a, b = 1 %}
{% set a, b = [1, 2, 3] %}
{% set x.y = 1 %}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}
{% set q %}text {{ s }}{% endset %}[{{ q }}]{{ q|length }}
{% set q | upper | replace('E', '3') %}text {{ s }}{% endset %}{{ q }}
{% set v = 1 %}{% set q %}{% set v = 2 %}{{ v }}{% endset %}{{ q }}{{ v }}
{% if t %}a{% set z = 1 %}{% endif %}{{ z }}{% if f %}{% set y = 1 %}{% endif %}{{ y }}
{% if f %}1{% elif n %}2{% elif i %}3{% else %}4{% endif %}
{% if missing %}a{% else %}b{% endif %}{% if missing is not defined and missing2 is undefined %}c{% endif %}
{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(c=5, a=4) }} {{ m() }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, k=3) }}
{% macro m() %}{{ v }}{% endmacro %}{% set v = 5 %}{{ m() }}{% set v = 6 %}{{ m() }}
{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(5) }}
{% macro m(x) %}<{{ x }}>{% endmacro %}{% set r = m(s) %}{{ r|upper }}{{ r is string }}{{ m.name }}
{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body {{ s }}{% endcall %}
{% macro m(y) %}{% for x in y %}{{ caller(x, 1) }}{% endfor %}{% endmacro %}{% call(a, b=0) m(l) %}{{ b }}{% endcall %}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% macro m() %}{% set v = 9 %}{{ v }}{% endmacro %}{% set v = 1 %}{{ m() }}{{ v }}
{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}
{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'b') | upper %}aa{% endfilter %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% set c = 3 %}{% endwith %}{{ a }}{{ c }}
{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% generation %}x{{ s }}{% set g = 1 %}{{ g }}{% endgeneration %}{{ g }}
{% raw %}{{ s }} {% if %}{% endraw %}{{ s }}
a {# comment {{ x }} #} b {#- strip -#} c
{{ raise_exception('stop ' ~ s) }}
{{ range(3)|list }} {{ range(1, 7, 2)|list }} {{ range(5, 0, -2)|list }} {{ range(3) }}
{{ range(0, 9, 4) }} {{ range(3)|length }} {{ 2 in range(3) }}
{{ range(200000)|length }}
{{ range('a') }}
{{ range(1, 2, 0) }}
{{ dict(a=1, b='x') }} {{ dict({'z': 1}, a=2) }} {{ dict([('k', 1), ('l', 2)]) }}
{{ dict(a=1).a }} {{ namespace(a=1).a }}
{{ l.append(4) }}
{{ d.update({'a': 1}) }}
{{ d.pop('a') }}
{{ l.index(2) }} {{ l.count(1) }} {{ l.copy() }} {{ (1, 2, 1).count(1) }} {{ (1, 2).index(2) }}
{{ l.index(99) }}
{{ s.__class__.__mro__ }}
{{ s.strip('Hd') }} {{ ws.strip() }} {{ ws.lstrip() }} {{ ws.rstrip() }} {{ 'xxaxx'.strip('x') }}
{{ 'xxaxx'.lstrip('x') }} {{ 'xxaxx'.rstrip('x') }} {{ 'ünü'.strip('ü') }}
{{ s.split(',') }} {{ ws.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b  c '.split(None, 1) }}
{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b  c '.rsplit(None, 1) }} {{ ''.split() }} {{ ''.split(',') }}
{{ 'abc'.split('') }}
{{ 'a--b--c'.split('--')[-1] }} {{ 'x</think>y</think>z'.split('</think>')[-1].lstrip('\n') }}
{{ 'a b c'.split(' ', maxsplit=1) }} {{ 'aaa'.rsplit('aa') }}
{{ lines.splitlines() }} {{ 'a\r\nb\rc\x0bd\u2028e'.splitlines() }} {{ lines.splitlines(true) }}
{{ s.startswith('Hell') }} {{ s.endswith(('x', 'World')) }} {{ s.startswith(('a', 'b')) }}
{{ s.startswith('') }}
{{ s.startswith(1) }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ 'abc'.replace('', '-') }}
{{ 'abc'.replace('', '-', 2) }} {{ 'äb'.replace('', '-') }} {{ 'aaa'.replace('aa', 'b') }}
{{ s.upper() }} {{ s.lower() }} {{ 'hello wORLD-x o\'neil'.title() }}
{{ 'hELLO wORLD'.capitalize() }} {{ 'straße'.upper() }} {{ 'ÄÖÜ'.lower() }} {{ ''.capitalize() }}
{{ s.find('o') }} {{ s.find('zz') }} {{ s.rfind('o') }} {{ s.index('W') }} {{ s.count('l') }}
{{ s.find('o', 5) }} {{ s.find('o', 5, 7) }} {{ messages[3].content.find('na') }}
{{ 'aaaa'.count('aa') }} {{ ''.find('') }} {{ s.find('', 99) }}
{{ s.index('zz') }}
{{ ', '.join(ls) }} {{ ''.join([]) }} {{ '-'.join('abc') }} {{ '-'.join(d) }}
{{ ', '.join(l) }}
{{ '12'.isdigit() }} {{ '1a'.isdigit() }} {{ ''.isdigit() }} {{ 'ab'.isalpha() }}
{{ 'a1'.isalnum() }} {{ ' \t'.isspace() }} {{ 'AB'.isupper() }} {{ 'ab1'.islower() }}
{{ '1'.islower() }}
{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.y'.removesuffix('.y') }} {{ 'x'.removeprefix('zz') }}
{{ 'a=b=c'.partition('=') }} {{ 'abc'.partition('=') }}
{{ 'ab'.center(7) }}| {{ 'abc'.center(6) }}| {{ 'ab'.center(5) }}|
{{ '%s is %d and %.2f %5s|%-5s|%05d %x %%' % ('a', 3, 2.5, 'r', 'l', 42, 255) }} {{ '%s' % s }}
{{ '%r' % s }} {{ '%s' % none }} {{ '%(a)s %(b)d' % {'a': 'x', 'b': 2} }} {{ '%+d' % 3 }}
{{ '%e' % 12345.678 }} {{ '%g' % 0.0001 }} {{ '%.3s|' % 'abcdef' }} {{ '%d' % 3.9 }}
{{ '%d' % 'x' }}
{{ '%s %s' % 'x' }}
{{ '%s' % ('a', 'b') }}
{{ '%q' % 1 }}
{{ '{} {}'.format('a', 1) }} {{ '{1} {0}'.format('a', 'b') }} {{ '{x}'.format(x=1) }}
{{ '{{}}'.format() }} {{ '{:.2f}'.format(2.345) }} {{ '{:>5}|{:<5}|{:05d}'.format('a', 'b', 42) }}
{{ '{}'.format(none) }}
{{ '{}'.format() }}
{{ '{0.__class__}'.format('x') }}
{{ "%s-%s"|format(1, 'b') }} {{ "%(a)s"|format(a=2) }}
{{ messages|map(attribute='role')|join(',') }} {{ objs[:2]|map(attribute='n.m')|join(',') }}
{{ objs|map(attribute='a', default=0)|list }} {{ ls|map('upper')|list }}
{{ ls|map('replace', 'a', 'X')|join }} {{ nested|map(attribute=0)|list }}
{{ l|map('string')|join('+') }}
{{ objs|map(attribute='n.m')|list }}
{{ messages|selectattr('role', 'equalto', 'user')|list|length }}
{{ messages|rejectattr('role', 'eq', 'user')|map(attribute='role')|list }}
{{ objs|selectattr('a')|list }} {{ objs|selectattr('a', 'defined')|list|length }}
{{ messages|selectattr('role', 'in', ['user', 'tool'])|list|length }} {{ l|select('>', 1)|list }}
{{ l|select('odd')|list }} {{ l|reject('equalto', 1)|list }} {{ [0, 1, '', 'a']|select|list }}
{{ [0, 1]|reject|list }} {{ objs|selectattr('a', 'gt', 1)|first }}
{{ (messages|selectattr('role', 'equalto', 'system')|first).content }}
{{ messages|selectattr('role', 'equalto', 'zz')|first }}
{{ l|sort }} {{ ls|sort }} {{ ls|sort(case_sensitive=true) }} {{ l|sort(reverse=true) }}
{{ objs[:2]|sort(attribute='a') }} {{ objs[:2]|sort(attribute='n.m')|map(attribute='a')|list }}
{{ 'hello'|sort|join }}
{{ [1, 'a']|sort }}
{{ l|unique|list }} {{ ls|unique|list }} {{ ['a', 'A']|unique(true)|list }} {{ l|reverse|list }}
{{ s|reverse }} {{ messages[3].content|reverse }}
{{ d|dictsort }} {{ d|dictsort(true) }} {{ {'a': 2, 'b': 1}|dictsort(by='value') }}
{{ {'a': 2, 'b': 1}|dictsort(reverse=true) }} {{ d|items|list }} {{ missing|items|list }}
{{ l|items }}
{{ l|length }} {{ s|length }} {{ d|count }} {{ missing|length }} {{ range(4)|length }} {{ d.keys()|length }}
{{ i|length }}
{{ n|length }}
{{ l|map('string')|length }}
{{ l|first }} {{ l|last }} {{ s|first }} {{ s|last }} {{ []|first }}| {{ d|first }}
{{ ''|last }}| {{ d|last }}
{{ l|join }} {{ l|join(', ') }} {{ objs|join('|', attribute='a') }} {{ s|join('-') }}
{{ [1, none, 'x', 2.0]|join(' ') }} {{ missing|join }}
{{ l|list }} {{ 'abc'|list }} {{ d|list }} {{ (1, 2)|list }} {{ missing|list }}
{{ 5|list }}
{{ s|upper }} {{ s|lower }} {{ 'hello wORLD-x (y) o\'neil'|title }} {{ 'hELLO'|capitalize }}
{{ i|upper }} {{ n|lower }} {{ missing|upper }}
{{ ws|trim }}| {{ 'xxaxx'|trim('x') }} {{ i|trim }} {{ missing|trim }}|
{{ s|replace('o', '0') }} {{ s|replace('o', '0', 1) }} {{ i|replace(7, 8) }} {{ missing|replace('a', 'b') }}|
{{ missing|default('d') }} {{ n|default('d') }} {{ n|default('d', true) }}
{{ ''|d('d', boolean=true) }} {{ missing|default }}| {{ s|d('x') }}
{{ missing.a|default('x') }}
{{ (missing|default({})).a is defined }} {{ f|default(true) }} {{ 0|default(1, true) }}
{{ '42'|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ 3.9|int }} {{ '3.9'|int }}
{{ '0x1f'|int(base=16) }} {{ n|int }} {{ t|int }} {{ ' 5 '|int }} {{ '-7'|int }} {{ '1_000'|int }}
{{ '1e3'|int }} {{ 'ff'|int(0, 16) }} {{ l|int }} {{ 'inf'|int }}
{{ missing|int }}
{{ '1.5'|float }} {{ 3|float }} {{ 'x'|float }} {{ 'x'|float(2.5) }} {{ 'inf'|float }}
{{ '-1e3'|float }} {{ t|float }} {{ 'nan'|float }} {{ n|float }}
{{ -3|abs }} {{ neg|abs }} {{ (-2.5)|abs }}
{{ s|abs }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 42|round }} {{ 1234.5678|round(-2) }}
{{ 1.2|round(0, 'ceil') }} {{ 1.8|round(method='floor') }} {{ 42.55|round(1, 'floor') }}
{{ 15|round(-1) }} {{ 25|round(-1) }}
{{ l|min }} {{ l|max }} {{ ls|min }} {{ ls|max }} {{ []|min }}| {{ objs[:2]|min(attribute='a') }}
{{ l|sum }} {{ objs[:2]|sum(attribute='a') }} {{ l|sum(start=10) }} {{ [1.5, 2]|sum }}
{{ ls|sum }}
{{ l|batch(2)|list }} {{ l|batch(3, 'x')|list }} {{ l|slice(3)|list }} {{ l|slice(3, 'x')|list }}
{{ 'a b_c d-e'|wordcount }} {{ 'one two three four'|truncate(9) }}
{{ 'one two three four'|truncate(9, true) }} {{ 'one two three four'|truncate(9, true, '…', 0) }}
{{ 'short'|truncate(255) }} {{ 'ab'|center(6) }}|
{{ lines|indent }} {{ lines|indent(2, true) }} {{ lines|indent(2, blank=true) }}
{{ lines|indent('> ', first=true) }} {{ 'a\n'|indent }}|
{{ '<a href="x">&\'</a>'|e }} {{ '<'|escape }} {{ '<b>'|safe }}
{{ s|string is string }} {{ 5|string }} {{ l|string }} {{ n|string }} {{ missing|string }}|
{{ d|tojson }} {{ l|tojson }} {{ s|tojson }} {{ n|tojson }} {{ t|tojson }} {{ x|tojson }}
{{ big|tojson }} {{ quote|tojson }} {{ messages|tojson }} {{ (1, 2)|tojson }} {{ {}|tojson }}
{{ []|tojson }}
{{ d|tojson(indent=2) }} {{ d|tojson(indent=4) }} {{ {}|tojson(indent=2) }}
{{ []|tojson(indent=2) }} {{ [[]]|tojson(indent=1) }} {{ d|tojson(indent=0) }}
{{ d|tojson(indent='\t') }}
{{ d|tojson(sort_keys=true) }} {{ d|tojson(separators=(',', ':')) }}
{{ quote|tojson(ensure_ascii=true) }} {{ messages[3]|tojson(ensure_ascii=true) }}
{{ messages[3]|tojson(true) }} {{ d|tojson(indent=2, separators=(' , ', ' : ')) }}
{{ {1: 2, none: 3, true: 4, 1.5: 6}|tojson }} {{ '\x00\x1f\x7f</script>&'|tojson }} {{ '\u2028'|tojson }}
{{ missing|tojson }}
{{ d.keys()|tojson }}
{{ range(3)|tojson }}
{{ [missing]|tojson }}
{{ 1 is number }} {{ true is number }} {{ 1.0 is float }} {{ 1 is integer }} {{ true is integer }}
{{ true is boolean }} {{ 's' is string }} {{ d is mapping }} {{ l is sequence }} {{ s is sequence }}
{{ d is sequence }} {{ l is iterable }} {{ 5 is iterable }} {{ missing is iterable }}
{{ missing is sequence }} {{ n is none }} {{ missing is string }} {{ missing is mapping }}
{{ d.items() is sequence }} {{ d.items() is iterable }} {{ range(3) is sequence }}
{{ l|map('string') is sequence }} {{ l|map('string') is iterable }} {{ (1,) is sequence }}
{{ true is true }} {{ 1 is true }} {{ false is false }} {{ none is false }} {{ 4 is even }}
{{ 3 is odd }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 'abc' is lower }}
{{ 'ABC' is upper }} {{ '1' is lower }} {{ 1 is sameas 1 }} {{ none is sameas none }}
{{ true is sameas true }} {{ 1 is sameas true }}
{{ 1 is eq 1 }} {{ 1 is equalto 2 }} {{ 1 is ne 2 }} {{ 2 is gt 1 }} {{ 2 is ge 2 }} {{ 1 is lt 2 }}
{{ 1 is le 1 }} {{ 2 is greaterthan 1 }} {{ 1 is lessthan 2 }} {{ 'a' is in 'abc' }}
{{ 1 is in([1, 2]) }} {{ 3 is not in [1] }} {{ not 1 is eq 1 }}
{{ range is callable }} {{ s is callable }} {{ missing is callable }} {{ 'upper' is filter }}
{{ 'zz' is filter }} {{ 'odd' is test }}
{{ s is defined and s is not none and s|length > 3 }} {{ missing is defined or t }}
{{ 'x' if s is string else 'y' }}
{{ missing + 1 }}
{{ 1 + missing }}
{{ 's' + 1 }}
{{ 1 + 's' }}
{{ s + n }}
{{ none + none }}
{{ [] + {} }}
{{ [1] + (2,) }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1.0 / 0 }}
{{ 0 ** -1 }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ missing < 1 }}
{{ [] < 1 }}
{{ {} < {} }}
{{ 1 in 1 }}
{{ 1 in 'a' }}
{{ 1 in none }}
{{ -s }}
{{ -missing }}
{{ +none }}
{{ s|nofilter }}
{{ s is notest }}
{% nostatement %}
{% if t %}
{% for x in l %}
{% endif %}
{% for x in 5 %}{% endfor %}
{% for x in none %}{% endfor %}
{% for a, b in l %}{% endfor %}
{% break %}
{{ s
{{ s }
{{ }}
{{ (1 }}
{{ [1, }}
{{ 'abc }}
{{ 1 2 }}
{{ a b }}
{{ . }}
{{ s | }}
{{ 1 is }}
{{ {'a' 1} }}
{{ f(a=1, 2) }}
{{ 01 }}
{{ $ }}
{# open
{% raw %} open
{% set %}
{% set 1 = 2 %}
{% set true = 2 %}
{% macro m(a=1, b) %}{% endmacro %}
{% if %}x{% endif %}
{% for in l %}{% endfor %}
{% else %}
{{ s.split(sep=',') }} {{ s.split(',', 5) }}
{{ s.split(1) }}
{{ s.strip(1) }}
{{ s.replace('a') }}
{{ s|replace('a') }}
{{ s|trim(1, 2) }}
{{ s|upper(1) }}
{{ s|tojson(foo=1) }}
{{ s|default(1, 2, 3) }}
{{ l|join(foo=1) }}
{{ [1, [2, {'a': (3, none)}]] }} {{ {'k': [1.0, 'x']} }}
{{ messages }}
{{ messages[0] }}
{{ messages[1]['content'] + '!' }} {{ messages[1].n + 1 }} {{ messages[2].content }}
{{ messages[2].tool_calls[0].function.arguments.x }} {{ messages[2].tool_calls is sequence }}
{% for m in messages %}{{ '<|' + m['role'] + '|>' }}{% if m.content %}{{ m.content|trim }}{% endif %}{% endfor %}
{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}U{% endif %}{% endfor %}
{% set loop_messages = messages[1:] if messages[0].role == 'system' else messages %}{{ loop_messages|length }}
{%- set ns = namespace(z=-1) -%}{%- for m in messages[::-1] -%}{%- set ns.z = loop.revindex -%}{%- endfor %}{{ ns.z }}
{{ namespace(a=1) }} {{ namespace() }}
{% print s %}{% print 1 + 2 %}
{{ loop }}
{% set loop = 5 %}{{ loop }}{% for x in l %}{{ loop.index }}{% endfor %}{{ loop }}
{{ caller }}
{% for x in l %}{{ loop|length }}{% endfor %}
{{ {'a': {'b': {'c': 1}}}.a.b.c }} {{ {'a': 1}['a'] }} {{ {'a': 1}.get('b', {}).c }}
{{ [1, 2, 3][-1] }} {{ 'abc'[1] }} {{ (1, 2)[0] }} {{ [[1, 2], [3]][0][1] }}
{{ 'abc'[5] }}| {{ l['a'] }}| {{ l[none] }}| {{ l[1.0] }}| {{ d[0] }}| {{ d[[1]] }}|
{{ l[true] }} {{ d.a['items'] }} {{ d['a'].k }} {{ d.C[2] }}
{{ l[1:'a'] }}
{{ 5[1:2] }}|
{{ 5[0] }}|{{ none[0] }}|{{ none.x }}|{{ true.x }}
{{ {[1]: 2} }}
{{ {'a': 1} == {'a': 1.0} }} {{ [1, 2] == [1, 2.0] }} {{ (1, 2) == [1, 2] }} {{ 'a' == 1 }}
{{ none != false }} {{ 0 == false }} {{ '' == none }} {{ [] != [] }}
{{ 1 == 1 and 2 != 3 or 1 / 0 }} {{ t or 1 / 0 }} {{ f and 1 / 0 }}
{{ 1 if true else 1 / 0 }} {{ (1 / 0) if false }}
{{ 1 if s == 'x' else s|upper }} {{ s|upper ~ 'x'|upper }} {{ s|upper + 'x' }}
{{ 1 + 2|string|length }} {{ -5|abs }} {{ (1, 2)|length }} {{ [1, 2]|length + 1 }}
{{ not l|length == 4 }} {{ 'a' ~ 'b' | upper }}
{{ s|replace('H', 'J')|upper|trim|length }} {{ ('a' ~ 'b') | upper }} {{ 'abc'|first|upper }}
{{ 'a,b'.split(',')|join(';')|upper }} {{ s.upper().lower().title() }}
{{ s.split()[0].strip(',')|lower }}
{{ 3.0 }} {{ 3.10 }} {{ 1e5 }} {{ 1E5 }} {{ 0.1 }} {{ 1e100 }} {{ 5e-324 }}
{{ 1.7976931348623157e308 }} {{ 123456.789e3 }} {{ 1e15 }} {{ 9007199254740993 }}
{{ 9007199254740993 == 9007199254740992.0 }}
{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }}
{{ s is string if t else f }}
{{ a.b.c is defined }}
{{ missing.a is defined }} {{ missing['a'] is undefined }}
{{ ls|join(', ')|replace(', ', '; ') ~ '.' }} {{ [s, i|string]|join }} {{ (s ~ i)|length }}
{{ [1,2,3,]|length }} {{ {'a':1,}|length }} {{ (1,2,)|length }} {{ dict(a=1,)|length }}
{{ 'a\
b' }}
{{ s . upper ( ) }} {{ l [ 0 ] }} {{ s|  upper }} {{-s-}} {{ - 1 }}
{% set a = 'x' %}{% set a = a ~ a ~ a %}{{ a }}{% set a = a + a %}{{ a }}
{% set x = [] %}{% for i in range(3) %}{% set x = x + [i] %}{% endfor %}{{ x }}
{{ s is sameas s }} {{ l is sameas l }} {{ [1] is sameas [1] }}
{{ strftime_now('%Y')|length }} {{ strftime_now('no directive') }} {{ strftime_now('100%%') }}
{{ ''.join(['a', 'b']) ~ ' '.join(ls|map('upper')) }} {{ ', '.join(d.keys()) }} {{ ','.join(ls|reverse) }}
{{ d.items()|list }} {{ d.keys()|list|first }} {{ d.values()|list|length }} {{ d.items()|length }}
{{ d.keys()|sort }} {{ (d|list)[0] }} {{ d.keys()[0] }}|
{{ not }}
{{ 1 not 2 }}
{{ 1 in }}
{{ if }}
{{ 1 if }}
{{ 'x' if t else }}
{{ True }} {{ False }} {{ None }} {{ TRUE }}|
{{ foo.bar }}
{{ (missing or {}).x }}| {{ (n or []) }} {{ (e or 'default') }}
{% for i in range(2) %}{% for j in range(2) %}{{ i }}{{ j }}{{ loop.index }} {% endfor %}{{ loop.index }}|{% endfor %}
{% for x in range(3) %}{{ x }}{{ ', ' if not loop.last }}{% endfor %}
{% for x in range(3) %}{% if not loop.first %}, {% endif %}{{ x }}{% endfor %}
{% for k, v in d|dictsort %}{{ k }}{% endfor %}
{% for k, v in d|items %}{{ k }}{{ loop.index }}{% endfor %}
{% for x in 'ab', 'cd' %}{{ x }}{% endfor %}
{% for x in (1, 2) if x == 2 %}{{ x }}{% endfor %}
{% for x in l|sort|reverse %}{{ x }}{{ loop.length }}{% endfor %}
{% for x in l[1:] + [9] %}{{ x }}{% endfor %}
{% for x in (l if t else []) %}{{ x }}{% endfor %}
{% for role, content in messages|map(attribute='role')|list|batch(2)|list %}{{ role }}{{ content }}{% endfor %}
"""

PIECES = ["", "-", "+"]
PYTHON_OBJECTS = (" at 0x", "<bound method", "<class", "<function", "<built-in", "<slot wrapper")


def whitespace_cases():
    """Tags of each kind with each mark on each side, between spaces and newlines."""
    surroundings = [("a", "b"), ("a ", " b"), ("a\n", "\nb"), ("a\n  ", "  \n b"), ("\n\n", "\n\n"), ("", "\n")]
    for (before, after), left, right in itertools.product(surroundings, PIECES, PIECES):
        yield f"{before}{{%{left} if t {right}%}}{after}X{before}{{%{left} endif {right}%}}{after}"
        yield f"{before}{{#{left} c {right}#}}{after}"
        yield f"{before}{{%{left} raw %}} {{{{ }}}} {{% endraw {right}%}}{after}"
        if right != "+":
            yield f"{before}{{{{{left} s {right}}}}}{after}"
    yield from ["a\n", "a\n\n", "a\r\nb\r\n", "a\rb", "\n", "", "{{ s }}\n"]
    yield from ["{% if t %}\n{% endif %}\n", "{{ 'a\r\nb' }}"]
    yield "  {% set a = 1 %}  {% set b = 2 %}\n  {{ a }}\n"
    yield "  {# c #}  {% if t %}\n   x\n  {% endif %}\n"
    yield "x {%- if t %} y {%- endif %} z"
    yield "{{ {'a': {'b': 1}} }}{{ {'a': {}}}}"
    yield "{% set d = {'a': {}} %}{{ d }}"
    yield "{{ '}}' }}{{ \"%}\" }}{% if '%}' == '%}' %}y{% endif %}"
    yield "{%- raw -%}  {{ x }}  {%- endraw -%}  y"
    yield "{% raw %}\nx\n{% endraw %}\ny"
    yield "{#- a -#}\n\n{#+ b +#}\n  c"
    yield "{ { % x } } {a} {"
    yield "a{%if t%}b{%endif%}c{{s}}{{-s-}}"


def operator_cases():
    """Every operator between values of every kind."""
    values = ["1", "-2", "2.5", "true", "none", "'ab'", "''", "[1]", "(1, 2)"]
    values += ["{'a': 1}", "missing", "s", "l", "range(2)"]
    operators = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "<", ">=", "in", "and", "or"]
    for a, op, b in itertools.product(values, operators, values):
        yield f"{{{{ {a} {op} {b} }}}}"


def filter_cases():
    """Every filter and test without arguments, and every string method, on values of every kind."""
    filters = """
        abs capitalize center count d default dictsort e escape first float format indent int items join
        last length list lower map max min reject reverse round safe select sort string sum title tojson
        trim truncate unique upper wordcount
    """.split()
    tests = """
        boolean callable defined even false float integer iterable lower mapping none number odd sequence
        string true undefined upper
    """.split()
    values = ["5", "-2.5", "true", "none", "s", "ws", "''", "l", "ls", "(2, 1)", "d", "{}", "[]"]
    values += ["missing", "range(3)", "messages[3].content"]
    for value in values:
        for name in filters:
            listed = "|list" if name in ("map", "select", "reject", "unique", "items", "reverse") else ""
            yield f"{{{{ ({value})|{name}{listed} }}}}"
        for name in tests:
            yield f"{{{{ ({value}) is {name} }}}}"
    methods = """
        capitalize isalnum isalpha isdigit islower isspace isupper lower lstrip rsplit rstrip split
        splitlines strip title upper
    """.split()
    texts = ["s", "ws", "''", "'ß ÄÖ ǆ'", "messages[3].content", "'a1 B2'", "'A\u00a0b\u2003c'", "'\x1c\x85'"]
    for text, name in itertools.product(texts, methods):
        yield f"{{{{ [({text}).{name}()] }}}}"


def slice_cases(rng):
    bounds = ["", "0", "1", "2", "3", "-1", "-2", "-5", "9", "-9"]
    for _ in range(150):
        a, b = rng.choice(bounds), rng.choice(bounds)
        step = rng.choice(["", ":", ":1", ":2", ":-1", ":-2", ":3"])
        what = rng.choice(["s", "l", "messages[3].content", "(1, 2, 3)", "''", "range(5)|list"])
        yield f"{{{{ {what}[{a}:{b}{step}] }}}}"


def expression(rng, depth):
    if depth == 0:
        return rng.choice(["1", "2", "3.5", "'a'", "'b'", "s", "i", "l", "t", "n", "missing", "d", "x", "[1, 2]"])
    kind = rng.randrange(9)
    sub = lambda: expression(rng, rng.randrange(depth))
    if kind < 4:
        op = rng.choice(["+", "-", "*", "~", "==", "!=", "<", "and", "or", "in", "not in", "%", "//"])
        return f"{sub()} {op} {sub()}"
    if kind == 4:
        return f"({sub()})"
    if kind == 5:
        return f"{sub()} if {sub()} else {sub()}"
    if kind == 6:
        return rng.choice(["not ", "-"]) + sub()
    if kind == 7:
        names = ["string", "length", "list", "upper", "first", "default('q')", "tojson", "int"]
        return f"({sub()})|" + rng.choice(names)
    return f"{sub()} is " + rng.choice(["defined", "none", "string", "not string", "number", "mapping", "sequence"])


def cases():
    rng = random.Random(7)
    # Lines of HAND; a line that ends inside a string goes on in the next one.
    for template in HAND.strip("\n").replace("\\\nb'", "\0").split("\n"):
        yield template.replace("\0", "\\\nb'")
    yield from whitespace_cases()
    yield from operator_cases()
    yield from filter_cases()
    yield from slice_cases(rng)
    for _ in range(700):
        yield "{{ " + expression(rng, 4) + " }}"


def main():
    out, seen = [], set()
    for template in cases():
        if template in seen:
            continue
        seen.add(template)
        case = {"template": template}
        try:
            case["expected"] = chat_template_utils._compile_jinja_template(template).render(
                **copy.deepcopy(VALUES)  # a filter may change a list in place
            )
            if any(mark in case["expected"] for mark in PYTHON_OBJECTS):
                continue  # a memory address or the like is no reference
        except Exception as e:  # whatever Python raises is the reference
            case["raises"] = type(e).__name__
        out.append(case)
    value = common.provenance(__file__, 7, "transformers", "jinja2")
    path = os.path.join(common.TESTDATA, "chat", "jinja_cases.json")
    common.save_json(path, {**value, "values": VALUES, "cases": out}, compact=True)
    print(len(out), "cases,", sum("raises" in c for c in out), "raise")


if __name__ == "__main__":
    main()
