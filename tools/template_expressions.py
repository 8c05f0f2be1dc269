"""Small templates for the construct-by-construct goldens: (source) or (source, context)."""

CONTEXT = {
    "s": "Hello, 世界 😀", "e": "", "n": 3, "f": 2.5, "t": True, "x": None, "l": [3, 1, 2],
    "w": ["b", "A", "c"], "d": {"a": 1, "b": [1, 2], "items": "I", "中": "文"},
    "m": [{"role": "user", "content": "q", "k": {"z": 1}}, {"role": "bot", "content": None},
          {"role": "user", "n": 5}],
    "ws": " \t a b \n", "q": "it's \"q\" <b>&\\", "lines": "a\nb\r\nc\n\nd",
}


def wrap(*expressions):
    return [("{{ " + e + " }}",) for e in expressions]


LITERALS = wrap(
    "1", "-1", "1_000", "0x1F", "0b101", "0o17", "1.5", "1e3", "1.5e-7", "1e16", "123456789012345678",
    "1e22", "0.0001", "0.00001", "-0.0", "1e100", "100000.0", "1e15", "123456789.125", "true", "True",
    "false", "none", "None", "'a' \"b\" 'c'", "'\\n\\t\\x41\\u4e16\\U0001F600\\'\\\"\\\\'", "'\\q\\é'",
    "'\\101\\0'", "[]", "[1, 'a', none, 2.0, true]", "(1,)", "()", "(1, 2)", "1, 2", "{}",
    "{'a': 1, 2: 'b', none: [1]}", "{'a': 1, 'a': 2}", "{1: 'a', true: 'b', 1.0: 'c'}", "{[]: 1}",
    "[1, 2,]", "{'a': 1,}", "'it\\'s'", "['it\\'s', 'say \"x\"', '\"both\\'']", "['\\n\\x00\\x7f\\u200b é 世😀']",
    "nope", "nope.x", "nope['x']", "s.nope", "s.nope.x", "d.nope", "d.nope.deeper", "1.5.real", "'%'", "012", "1__0", "1.e5",
    ".5", "'open", "1 2", "a b", "", "[1", "{'a'}", "(1", "1)", "x!", "a ? b", "not", "1 +", "@", "$x", "é")

OPERATORS = wrap(
    "1 + 2", "1 - 2 - 3", "2 * 3 + 4", "7 / 2", "6 / 3", "7 // 2", "-7 // 2", "7 % 3", "-7 % 3", "7 % -3", "7.5 // 2",
    "-7.5 % 2", "2 ** 10", "2 ** -1", "-2 ** 2", "2 ** 3 ** 2", "1 / 0", "1 // 0", "1.0 / 0", "1 % 0", "2 ** 0.5", "0 ** -1",
    "1 + 2.0", "1 + true", "true + true", "'a' + 'b'", "'a' + 1", "1 + 'a'", "'a' * 3", "3 * 'ab'", "'a' * -1", "[1] * 2",
    "[1] + [2]", "(1,) + (2,)", "[1] + (2,)", "none + 1", "x + 'a'", "nope + 1", "1 + nope", "'a' ~ 1 ~ none ~ true ~ 2.0 ~ nope",
    "1 ~ 2 + 3", "1 == 1.0", "1 == true", "'1' == 1", "[1] == [1]", "[1] == (1,)", "{'a': 1} == {'a': 1.0}", "none == false",
    "nope == nope2", "nope == none", "1 < 2 < 3", "1 < 3 < 2", "1 < 2 == 2", "'a' < 'b'", "'é' > 'z'", "'\uffff' < '😀'",
    "1 < 'a'", "none < 1", "nope < 1", "[1, 2] < [1, 3]", "[1] < [1, 'a']", "true < 2", "'a' in 'abc'", "'' in ''", "1 in 'abc'",
    "1 in [1, 2]", "1.0 in [1]", "'a' in {'a': 1}", "1 in none", "1 in nope", "1 not in [2]", "not 1 in [1]", "[1] in {}",
    "not true", "not not ''", "1 and 2", "0 and 2", "1 or 2", "'' or none or 'z'", "not nope", "1 if true else 2", "1 if false",
    "1 if false else 2 if false else 3", "(1 if false) is undefined", "-n", "+f", "-t", "-'a'", "- - 1", "--1", "n - -1",
    "1 and 2 or 3", "true and not false", "'%s-%d-%05.1f|%-4s|%4s|%x|%%' % ('a', 7, 2.345, 'b', 'c', 255)", "'%s' % none", "'%d' % 'a'",
    "'%(a)s' % d", "'%s %s' % ('a',)", "'a' % 1", "'%s' % [1]", "'%r' % 'a'", "1 is 1", "n is none is none")

ACCESS = wrap(
    "s[0]", "s[-1]", "s[8]", "s[99]", "s['x']", "s[7:]", "s[:5]", "s[::-1]", "s[::2]", "s[-2:]", "s[5:2]", "s[1:-1:3]", "s[::0]",
    "l[0]", "l[-1]", "l[3]", "l[1:]", "l[::-1]", "l[:-1]", "l[true]", "l['a']", "l[1.0]", "l[none]", "l[5:]", "l[-9:9]", "l[2:0:-1]",
    "d.a", "d['a']", "d['items']", "d.items()", "d.keys()", "d.values()", "d.items() | list", "d['nope']", "d.get('a')",
    "d.get('z')", "d.get('z', 9)", "d.中", "d['中']", "d[1]", "d[['a']]", "d.pop", "d.pop('a')", "l.append(1)", "l.sort", "s.__class__",
    "d.__class__", "l.__len__()", "d.update({})", "m[0].k.z", "m[0]['k']['z']", "m.0.role", "m[0].nope", "m[9].role", "(1, 2)[0]",
    "[[1, 2], [3]][0][1]", "x.y", "x['y']", "n.y", "n[0]", "nope[1:]", "n[1:]", "d[1:]", "{'a': {'b': 1}}.a.b", "l.count(1)", "l.index(2)",
    "l.index(9)", "(1, 2, 1).count(1)", "l.copy()", "range(3)[1]", "range(5)[1:3] | list", "dict(a=1, b=2)", "dict(d, c=3)", "dict([('a', 1)])",
    "dict([1])", "namespace(a=1).a", "namespace({'a': 2}).a", "namespace(a=1).b", "namespace(_a=1)", "namespace(a=1)")

METHODS = wrap(
    "ws.strip()", "ws.lstrip() ~ '|'", "'|' ~ ws.rstrip()", "'xxaxx'.strip('x')", "'xyaxy'.lstrip('yx')", "'\u3000a\u00a0'.strip()",
    "'abc'.strip('')", "'世界a'.rstrip('a界')", "'a,b,,c'.split(',')", "'a,b,c'.split(',', 1)", "'a,b,c'.rsplit(',', 1)", "ws.split()",
    "' a  b  c '.split(none, 1)", "' a  b  c '.rsplit(none, 1)", "'abc'.split('')", "''.split()", "''.split(',')", "'a b'.split(maxsplit=1)",
    "'a<t>b<t>c'.split('<t>')[-1]", "lines.splitlines()", "lines.splitlines(true)", "'a\\x0bb\\u2028c'.splitlines()", "s.upper()", "s.lower()",
    "'straße ŉ ﬁ'.upper()", "'ΑΣ ΑΣΑ Σ'.lower()", "'İ'.lower()", "'hello world it\\'s x1y'.title()", "'hELLO wORLD'.capitalize()", "'ǆ a'.title()",
    "'aBc ß'.swapcase()", "'a-b'.replace('-', '+')", "'aaa'.replace('a', 'b', 2)", "'ab'.replace('', '.')", "'a'.replace('a', 1)",
    "s.startswith('Hello')", "s.startswith(('x', 'He'))", "s.endswith('😀')", "s.startswith('llo', 2)", "s.startswith(1)", "s.startswith(['H'])",
    "s.find('世')", "s.find('zz')", "s.rfind('l')", "s.index('zz')", "s.find('l', 3)", "s.find('l', 4, 5)", "'aXbX'.rindex('X')", "s.count('l')",
    "'aaaa'.count('aa')", "'abc'.count('')", "'abc'.find('', 3)", "'abc'.find('', 4)", "','.join(['a', 'b'])", "','.join([1])", "','.join('abc')",
    "','.join(w)", "''.join([])", "'a'.join(nope)", "'12'.isdigit()", "''.isdigit()", "'²'.isdigit()", "'²'.isdecimal()", "'½'.isnumeric()", "'aé世'.isalpha()",
    "'a1'.isalnum()", "' \\t'.isspace()", "'Ab'.isupper()", "'AB1'.isupper()", "'ab'.islower()", "'é'.isascii()", "'7'.zfill(3)", "'-7'.zfill(4)", "'a'.ljust(3) ~ '|'",
    "'a'.rjust(3, '*')", "'ab'.center(5, '*')", "'abc'.center(6, '.')", "'a=b=c'.partition('=')", "'a=b=c'.rpartition('=')", "'abc'.partition('x')", "'abc'.removeprefix('a')",
    "'abc'.removesuffix('bc')", "'{} {}'.format(1, 'a')", "'{1}{0}'.format('a', 'b')", "'{a}'.format(a=none)", "'{{}}'.format()", "'{'.format()", "'{} {}'.format(1)",
    "'a'.nope()", "'abc'.upper(1)", "'abc'.strip(1)", "'a'.strip(chars='a')", "n.upper()")

FILTERS = wrap(
    "s | upper", "s | lower", "n | upper", "'foo bar-baz (qux) x\\ty' | title", "'ß a' | title", "'hELLO' | capitalize", "ws | trim", "'xax' | trim('x')", "n | trim",
    "none | trim", "nope | trim", "s | length", "l | length", "d | length", "nope | length", "x | length", "5 | length", "l | count", "l | join", "l | join(', ')",
    "m | join(',', attribute='role')", "[1, none, 'a', [2]] | join('-')", "'abc' | join('.')", "d | join(',')", "nope | join", "n | join", "l | first", "l | last", "'' | first",
    "[] | last", "s | first", "s | last", "d | first", "d | last", "nope | first", "n | first", "x | default('d')", "nope | default('d')", "x | default('d', true)",
    "e | default('d', boolean=true)", "nope | default", "nope.x | default('d')", "d.nope | d('z')", "l | list", "'ab' | list", "d | list", "nope | list", "x | list",
    "n | string ~ 1", "none | string", "[1] | string", "'12' | int", "' 12 ' | int", "'12.7' | int", "'abc' | int", "'abc' | int(-1)", "'ff' | int(base=16)", "'0x1f' | int(0, 16)", "2.9 | int",
    "-2.9 | int", "none | int", "true | int", "'1_0' | int", "'1e3' | int", "'1.5' | float", "'x' | float", "'nan' | float", "'inf' | float", "3 | float", "none | float(1.5)", "-3 | abs", "-3.5 | abs", "'a' | abs",
    "2.5 | round", "3.5 | round", "2.675 | round(2)", "1234 | round(-2)", "2.1 | round(0, 'ceil')", "2.9 | round(method='floor')", "3 | round", "l | sum", "[1.5, 2] | sum", "m | sum(attribute='n')",
    "[['a'], ['b']] | sum(start=[])", "l | sort", "w | sort", "w | sort(case_sensitive=true)", "l | sort(reverse=true)", "m | sort(attribute='role') | map(attribute='role') | join(',')", "[1, 'a'] | sort",
    "l | min", "l | max", "w | min", "[] | max", "l | reverse | list", "'abc' | reverse", "l | unique | list", "['a', 'A', 'b'] | unique | list", "d | dictsort", "{'b': 1, 'A': 2} | dictsort", "{'b': 1, 'A': 2} | dictsort(by='value', reverse=true)",
    "l | map('string') | join('+')", "w | map('upper') | list", "m | map(attribute='role') | list", "m | map(attribute='k.z', default=0) | list", "m | map(attribute='n') | list", "l | map('nope') | list", 
    "none | map('upper') | list", "nope | map('upper') | list", "['a-b'] | map('replace', '-', '+') | first", "l | select('odd') | list", "l | reject('odd') | list", "[0, 1, none, ''] | select | list", "l | select('>', 1) | list", "l | select('nope') | list",
    "m | selectattr('content') | list | length", "m | selectattr('role', 'equalto', 'user') | list | length", "m | selectattr('n', 'defined') | list", "m | rejectattr('role', 'in', ['user']) | map(attribute='role') | list", "m | selectattr | list",
    "m | groupby('role') | map('first') | list", "l | batch(2) | list", "l | batch(2, 'z') | list", "l | slice(2) | list", "[1,2,3,4,5] | slice(3, 'x') | list", "d | items | list", "nope | items | list", "l | items | list",
    "'a-a' | replace('a', 'b')", "'aaa' | replace('a', 'b', 2)", "123 | replace(2, 'x')", "none | replace('N', 'n')", "'a' | replace('a')", "'a\\nb\\n\\nc' | indent", "'a\\nb\\n\\nc' | indent(2, true)", "'a\\n\\nb' | indent(2, blank=true)", "'a\\nb' | indent('> ')", "5 | indent",
    "'%s-%s' | format('a', 1)", "'%(a)s' | format(a=1)", "'abc' | center(9) ~ '|'", "'hello world foo' | truncate(9)", "'hello world foo' | truncate(9, true, '…', 0)", "'short' | truncate(4)", "q | e", "q | escape ~ '<'", "q | safe", "(q | safe) + '<'", "'<' + (q | escape)", "q | e | e",
    "d | attr('a')", "l | nope", "l | nope.x", "'a' | upper | lower | title", "s | length > 3", "-1 | abs", "'a' ~ 'b' | upper", "(1, 2) | list", "range(4) | list", "range(2, 10, 3) | list", "range(5, 0, -2) | list", "range(0) | list", "range(100001)", "range('a')", "range(1, 2, 0)", "l | map('upper') | length", "(l | map('string')) is iterable", "l | map('string') | first", "l | first | upper | length")

JSON = wrap(
    "d | tojson", "l | tojson", "s | tojson", "q | tojson", "'\\n\\r\\t\\b\\f\\x00\\x1f\\x7f\\u2028é😀' | tojson", "'é😀\\x7f' | tojson(ensure_ascii=true)", "1.0 | tojson", "1e21 | tojson", "1e-7 | tojson", "none | tojson", "true | tojson", "(1, 2) | tojson",
    "{} | tojson", "[] | tojson", "[[], {}] | tojson(indent=2)", "d | tojson(indent=2)", "d | tojson(indent=0)", "d | tojson(indent='--')", "[1, [2, {'a': []}]] | tojson(indent=1)", "{'b': 1, 'a': 2} | tojson(sort_keys=true)", "d | tojson(separators=(',', ':'))", "d | tojson(true)", "{1: 2, none: 3, true: 4, 2.5: 5} | tojson",
    "nope | tojson", "[nope] | tojson", "d.items() | tojson", "namespace() | tojson", "range(3) | tojson", "'nan' | float | tojson", "'<a>&' | tojson | safe", "(q | safe) | tojson", "{(1, 2): 3} | tojson", "d | tojson(nope=1)", "'a' | tojson(indent=2)")

TESTS = wrap(
    "n is defined", "nope is defined", "nope is not defined", "nope is undefined", "d.a is defined", "d.z is defined", "x is none", "x is not none", "x is defined", "t is boolean", "n is boolean", "t is true", "t is false", "1 is true", "n is integer", "t is integer", "f is float", "n is number", "t is number",
    "s is string", "n is string", "d is mapping", "l is mapping", "l is iterable", "s is iterable", "n is iterable", "x is iterable", "nope is iterable", "d is iterable", "l is sequence", "s is sequence", "d is sequence", "n is sequence", "nope is sequence", "d.items() is sequence", "d.keys() is iterable", "range(3) is sequence",
    "3 is odd", "4 is even", "9 is divisibleby 3", "9 is divisibleby(2)", "'a' is odd", "'abc' is lower", "'ABC' is upper", "1 is in [1]", "1 is not in [1]", "n is eq 3", "n is equalto(3)", "n is ne 3", "n is gt 2", "n is lt 2", "n is ge 3", "n is le 2", "x is sameas none", "t is sameas true", "range is callable", "s.upper is callable", "n is callable",
    "'upper' is filter", "'zzz' is filter", "'odd' is test", "n is nope", "n is", "'a' is string and 'b' is string", "'a' if x is defined else 'b'", "not n is defined", "n is defined or nope", "(n is defined) == true", "s is string | upper", "[1] is eq [1]", "d is defined and d.a is defined", "'<' | e is escaped", "nope is callable", "raise_exception is defined", "strftime_now is defined", "joiner is defined or true")

STATEMENTS = [(t,) for t in (
    "{% if n == 3 %}a{% elif n == 4 %}b{% else %}c{% endif %}", "{% if nope %}a{% endif %}b", "{% if x %}{% elif t %}T{% endif %}",
    "{% for i in l %}{{ i }}{% if not loop.last %},{% endif %}{% endfor %}", "{% for i in [] %}{{ i }}{% else %}none{% endfor %}", "{% for i in l %}{% else %}z{% endfor %}",
    "{% for i in l if i > 1 %}{{ loop.index }}{{ i }}{{ loop.first }}{{ loop.last }} {% endfor %}", "{% for i in l if i > 1 %}{{ loop.length }}{{ loop.revindex }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }} {% endfor %}", "{% for c in 'aé世' %}[{{ c }}]{% endfor %}", "{% for i in nope %}x{% endfor %}|", "{% for i in n %}x{% endfor %}", "{% for i in x %}x{% endfor %}",
    "{% for a, b in [[1, 2], [3, 4]] %}{{ a + b }} {% endfor %}", "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for (a, b), c in [[[1, 2], 3]] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.length }} {% endfor %}", "{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}", "{% for i in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}",
    "{% for i in l %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for i in [1, 1, 2] %}{{ loop.changed(i) }} {% endfor %}", "{% for i in l %}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}", "{% for i in l %}{% set outer = loop %}{% for j in [1] %}{{ outer.index }}{% endfor %}{% endfor %}",
    "{% for i in l %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "{% for i in l %}{{ i }}{% break %}{% endfor %}", "{% break %}", "{% for i in l %}{% continue %}{% else %}E{% endfor %}", "{% for i in l %}{% break %}{% else %}E{% endfor %}", "{% for i in l %}{% endfor %}{{ i }}", "{{ loop }}", "{% for i in l %}{{ loop.nope }}{% endfor %}|",
    "{% for i in [[1, [2]], 3] recursive %}{{ loop.depth }}{% if i is iterable %}({{ loop(i) }}){% else %}{{ i }}{% endif %}{% endfor %}", "{% for i in l %}{{ loop(l) }}{% endfor %}", "{% for loop in l %}{% endfor %}", "{% for i in l %}{% set loop = 1 %}{% endfor %}", "{% for i in range(3) %}{{ i }}{% endfor %}",
    "{% for i in l | map('string') %}{{ loop.length }}{{ i }}{{ loop.last }} {% endfor %}", "{% for i in [l, l] | map('first') %}{{ i }}{{ loop.nextitem }}{% endfor %}", "{% for i in d.values() %}{{ i }}{% endfor %}",
    "{% set a = 1 %}{{ a }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set a, b = [1] %}", "{% set a %}x{{ n }}{% endset %}[{{ a }}]", "{% set a | upper %}x{{ n }}y{% endset %}{{ a }}", "{% set a | replace('x', 'z') | upper %}xy{% endset %}{{ a }}", "{% set n = n + 1 %}{{ n }}", "{% set x.y = 1 %}", "{% set d.a = 1 %}", "{% set true = 1 %}", "{% set 'a' = 1 %}", "{% set a.b.c = 1 %}",
    "{% for i in l %}{% set n = i %}{% endfor %}{{ n }}", "{% if t %}{% set z = 1 %}{% endif %}{{ z }}", "{% if x %}{% set n = 1 %}{% endif %}{{ n }}", "{{ n }}{% set n = 1 %}{{ n }}", "{% for i in l %}{{ n }}{% set n = i %}{{ n }} {% endfor %}", "{% for i in l %}{{ n }}{% endfor %}{% set n = 1 %}", "{% for i in l %}{% if i == 1 %}{% set n = 9 %}{% endif %}{{ n }}{% endfor %}",
    "{% macro a() %}{{ n }}{% endmacro %}{{ a() }}{% set n = 1 %}{{ a() }}", "{% macro a() %}{{ zz }}{% endmacro %}{% set zz = 1 %}{{ a() }}", "{% if x %}{% set n = 1 %}{% elif t %}{% set s = 2 %}{% endif %}{{ n }}{{ s }}", "{% if x %}{% else %}{% set n = 7 %}{% endif %}{{ n }}",
    "{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}", "{% set ns = namespace() %}{% set ns.b = 2 %}{{ ns.b }}{{ ns['b'] }}", "{% set ns = namespace(a=0) %}{% set ns.a, b = 1, 2 %}{{ ns.a }}{{ b }}", "{% set ns = namespace() %}{% set ns._b = 2 %}", "{% set ns = namespace() %}{% set ns.a %}block{% endset %}{{ ns.a }}", "{% set nope.a = 1 %}",
    "{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}|{{ f(1, 3) }}|{{ f(b=4, a=0) }}", "{% macro f(a) %}[{{ a }}]{% endmacro %}{{ f() }}", "{% macro f(a) %}{{ a.x }}{% endmacro %}{{ f() }}", "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", "{% macro f(a, b=a) %}{{ b }}{% endmacro %}{{ f(7) }}", "{% macro f(a=1, b) %}{% endmacro %}",
    "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, k=3) }}", "{% macro f(a) %}{{ a }}{{ caller() }}{% endmacro %}{% call f(1) %}body{{ n }}{% endcall %}", "{% macro f() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) f() %}{{ a }}{{ b }}{% endcall %}", "{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}", "{% macro f(i) %}{{ i }}{% if i > 0 %}{{ f(i - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% macro f() %}x{% endmacro %}{{ f() | upper }}{{ f() ~ f() }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(*[1]) }}{{ f(**{'a': 2}) }}", "{% call nope() %}{% endcall %}", "{% call 1 %}{% endcall %}",
    "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aa{% endfilter %}", "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z }}", "{% with a = 1, b = a %}{{ b }}{% endwith %}", "{% print n, f %}", "{% generation %}g{{ n }}{% set z = 1 %}{{ z }}{% endgeneration %}{{ z }}", "{% for i in l %}{% generation %}{{ loop.index }}{{ i }}{% endgeneration %}{% endfor %}", "{% for i in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
    "{% raw %}{{ a }}{% b %}{# c #}{% endraw %}", "{%- raw -%}  x  {%- endraw -%}  y", "{% raw %}a{% endraw", "a{# c #}b", "a {#- c -#} b", "a{# open", "{# {{ x }} #}", "  {% if t %}\n  a\n  {% endif %}\nb\n", "x  {% if t %}\n  a\n  {% endif %}  \nb\n\n", "  {%+ if t %}a{% endif +%}\nb", "  {{ n }}  \n", "  {{- n -}}  \n x", "\n\n{%- if t -%}\n\n a \n\n{%- endif -%}\n\nb", "{% if t -%}\n a {%- endif %}", "a\r\nb\rc\n", "a\n\n", "\n", "", "  {# c #}\n  b", "{{ '{{' }}{{ '%}' }}", "{{ {'a': {'b': 1}} }}", "{{ {'a': {'b': 1}}['a'] }}", "{{1}}{{-1}}{{+1}}", "{{ 1 }", "{% if %}{% endif %}", "{% if t %}", "{% endif %}", "{% else %}", "{% nope %}", "{% if t %}{% endfor %}", "{% for in l %}{% endfor %}", "{% for i of l %}{% endfor %}", "{% 1 %}", "{{ }}", "{%%}", "{", "{ {", "%}", "{% if t %}}{% endif %}", "{% if t: %}a{% endif %}", "{{ 'a' 'b' | upper }}", "{{ l\n| length }}", "{% set a = [\n1,\n2\n] %}{{ a }}", "\u3000{%- if t %}x{% endif %}", "\u00a0{% if t %}x{% endif %}",
    "{{ raise_exception('bad ' ~ n) }}", "{% if false %}{{ raise_exception('no') }}{% endif %}ok", "{{ raise_exception() }}", "{{ nope() }}", "{{ n() }}", "{{ s.upper()() }}", "{{ d.items()() }}", "{{ range(2) | list }}", "{{ {'a': 1}.b.c }}", "{% set a = d.copy() %}{{ a.a }}", "{{ (l | sort)[0] }}", "{{ (d.items() | list)[0][1] }}", "{{ d.items() | first }}", "{{ l | map('string') | list | tojson }}", "{% set ns = namespace(l=[]) %}{% for i in l %}{% set ns.l = ns.l + [i * 2] %}{% endfor %}{{ ns.l }}", "{% set it = l | map('string') %}{{ it | list }}{{ it | list }}", "{% for x in l %}{{ x }}{% endfor %}{{ x }}", "{{ 1 if 0 else nope }}", "{{ (nope if 1 else 2) is undefined }}", "{% set messages = m[1:] %}{{ messages | length }}{{ m | length }}", "{% for a in m if a.content %}{{ a.role }}{% endfor %}", "{% for a in l if loop.index > 0 %}{% endfor %}", "{% set k = 'z' %}{% for k in [1] %}{{ k }}{% endfor %}{{ k }}", "{% for i in l %}{% if loop.first %}{% set first = i %}{% endif %}{{ first }}{% endfor %}",
)]

CASES = LITERALS + OPERATORS + ACCESS + METHODS + FILTERS + JSON + TESTS + STATEMENTS
