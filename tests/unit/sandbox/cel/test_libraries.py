"""Functions of CEL's libraries; the values are those of k8s.io/apiserver 0.37.2."""

from __future__ import annotations

import pytest

from sandbox.cel.evaluation import CelError, compile_expression

SELF = {"a": 5, "s": "h\u00e9llo", "l": [3, 1, 2], "m": {"x": "y"}, "e": [], "namespace": "n", "a.b": 1}

TRUE = r"""
self.s.charAt(1) == 'é'
self.s.charAt(5) == ''
self.s.indexOf('l') == 2
self.s.indexOf('l', 3) == 3
self.s.indexOf('x') == -1
self.s.indexOf('') == 0
self.s.lastIndexOf('l') == 3
self.s.lastIndexOf('l', 2) == 2
self.s.lastIndexOf('') == 5
self.s.substring(1,3) == 'él'
'a,b,c'.split(',') == ['a','b','c']
'abc'.split('') == ['a','b','c']
'abc'.split('', 2) == ['a','bc']
'a,b,c'.split(',', 0) == []
'a,b,c'.split(',', 1) == ['a,b,c']
'a,b,c'.split(',', 2) == ['a','b,c']
'a,b,c'.split(',', -1) == ['a','b','c']
''.split(',') == ['']
''.split('') == []
'aXbX'.replace('X','-',1) == 'a-bX'
'aXbX'.replace('X','-',0) == 'aXbX'
'aXbX'.replace('','-') == '-a-X-b-X-'
'ÄB'.lowerAscii() == 'Äb'
'äb'.upperAscii() == 'äB'
' a '.trim() == 'a'
['a','b'].join('-') == 'a-b'
['a','b'].join() == 'ab'
'abc 123'.find('[0-9]+') == '123'
'abc'.find('[0-9]+') == ''
'1a2b3'.findAll('[0-9]') == ['1','2','3']
'1a2b3'.findAll('[0-9]', 2) == ['1','2']
'1a2b3'.findAll('[0-9]', 0) == []
[1,2,2].isSorted()
!([2,1].isSorted())
[1,2,3].sum() == 6
[1,2,3].min() == 1
[1,2,3].max() == 3
[1,2,1].indexOf(1) == 0
[1,2,1].lastIndexOf(1) == 2
[1,2].indexOf(9) == -1
self.?a.orValue(1/0) == 5
self.?zz.or(self.?a).value() == 5
!(self.?zz.hasValue())
!(self.l.all(x, x > 1 || 1/(x-3) > 0))
!(self.l.all(x, 1/(x-3) > 0 && x > 5))
self.l.all(x, x < 9 || 1/0 == 0)
self.l.exists(x, 1/(x-3) < 0)
self.l.exists_one(x, x == 1)
type(self.a) == int
type(self.s) == string
type(self.l) == list
type(self.m) == map
type(1.5) == double
type(null) == null_type
type(type(1)) == type
bool('true')
int('12') == 12
int(1.9) == 1
int(-1.9) == -1
string(1) == '1'
string(true) == 'true'
double('1.5') == 1.5
isURL('https://a.b:80/c?d=e')
!(isURL('a.b'))
isURL('/a/b')
!(isURL('../a'))
url('https://a.b:80/c').getHost() == 'a.b:80'
url('https://a.b:80/c').getHostname() == 'a.b'
url('https://a.b:80/c').getPort() == '80'
url('https://a.b/c').getPort() == ''
url('https://[::1]:80/').getHostname() == '::1'
url('https://a.b/c d').getEscapedPath() == '/c%20d'
url('https://a.b/c?k=v&k=w').getQuery() == {'k': ['v','w']}
url('https://a.b/c').getScheme() == 'https'
quantity('50k').asInteger() == 50000
!(quantity('500m').isInteger())
quantity('2Gi').isInteger()
!(quantity('1.5Gi').isInteger())
!(quantity('1000000Gi').isInteger())
!(quantity('1.0').isInteger())
!(quantity('1000m').isInteger())
!(quantity('1.0').sub(quantity('1.0')).isInteger())
quantity('1.0').sub(quantity('1.0')).add(2).isInteger()
quantity('0').add(2).isInteger()
quantity('2k').add(quantity('500')).asInteger() == 2500
!(quantity('1.5Gi').add(quantity('0.5Gi')).isInteger())
!(quantity('9223372036854775807').add(1).isInteger())
quantity('1.5Gi').add(quantity('0.5Gi')) == quantity('2Gi')
quantity('2Gi').compareTo(quantity('1.5Gi').add(quantity('0.5Gi'))) == 0
quantity('1k').add(quantity('1')) == quantity('1001')
quantity('1k').sub(1) == quantity('999')
quantity('1k').compareTo(quantity('1M')) == -1
quantity('1.5').asApproximateFloat() == 1.5
quantity('1') == quantity('1000m')
!(isQuantity('1.3Gii'))
isQuantity('100k')
isQuantity('10')
isQuantity('m')
isIP('127.0.0.1')
isIP('::1')
!(isIP('127.0.0.1.0'))
!(isIP('::ffff:1.2.3.4'))
!(isIP('fe80::1%eth0'))
ip('127.0.0.1').family() == 4
ip('::1').isLoopback()
ip('0.0.0.0').isUnspecified()
ip('224.0.0.1').isLinkLocalMulticast()
!(ip('224.0.1.1').isLinkLocalMulticast())
ip('ff02::1').isLinkLocalMulticast()
ip('169.254.1.1').isLinkLocalUnicast()
ip('8.8.8.8').isGlobalUnicast()
!(ip('255.255.255.255').isGlobalUnicast())
ip('10.0.0.1').isGlobalUnicast()
!(ip('224.0.1.1').isGlobalUnicast())
ip.isCanonical('127.0.0.1')
!(ip.isCanonical('2001:DB8::ABCD'))
isCIDR('192.168.0.0/24')
isCIDR('192.168.0.1/24')
!(isCIDR('192.168.0.0/33'))
!(isCIDR('192.168.0.0/255.255.0.0'))
cidr('192.168.0.0/24').containsIP('192.168.0.9')
!(cidr('192.168.0.0/24').containsIP(ip('192.168.1.9')))
cidr('192.168.0.0/24').containsCIDR('192.168.0.0/25')
!(cidr('192.168.0.0/24').containsCIDR(cidr('192.168.0.0/23')))
cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24')
cidr('192.168.0.0/24').prefixLength() == 24
cidr('192.168.0.1/24').ip() == ip('192.168.0.1')
semver('1.2.3').isLessThan(semver('1.10.0'))
semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))
semver('1.0.0-rc.2').compareTo(semver('1.0.0-rc.10')) == -1
semver('1.2.3').minor() == 2
!(isSemver('v1.2.3'))
isSemver('v1.0', true)
!(isSemver('1.2'))
isSemver('1.2.3+b')
semver('01.01.01', true).major() == 1
timestamp('2024-02-29T10:20:30Z').getFullYear() == 2024
timestamp('2024-02-29T10:20:30Z').getMonth() == 1
timestamp('2024-02-29T10:20:30Z').getDate() == 29
timestamp('2024-02-29T10:20:30Z').getDayOfMonth() == 28
timestamp('2024-02-29T10:20:30Z').getDayOfWeek() == 4
timestamp('2024-02-29T10:20:30Z').getDayOfYear() == 59
timestamp('2024-02-29T10:20:30Z').getHours() == 10
timestamp('2024-02-29T10:20:30Z') + duration('1h') == timestamp('2024-02-29T11:20:30Z')
timestamp('2024-02-29T10:20:30Z') - timestamp('2024-02-29T09:20:30Z') == duration('60m')
duration('1h30m').getMinutes() == 90
duration('1h').getHours() == 1
duration('90s').getSeconds() == 90
!(duration('1500ms').getMilliseconds() == 500)
duration('1500ms').getMilliseconds() == 1500
duration('-1h') < duration('0')
'ab'.matches('^a.$')
sets.contains([1,2],[1])
!(sets.intersects([1],[2]))
sets.equivalent([1,1,2],[2,1])
optional.of(1).value() == 1
!(optional.none().hasValue())
!(optional.ofNonZeroValue(0).hasValue())
strings.quote('a') == '"a"'
'%s-%d'.format(['a', 5]) == 'a-5'
'%s'.format([[1,2]]) == '[1, 2]'
'%.2f'.format([1.234]) == '1.23'
'%x'.format([255]) == 'ff'
'%%'.format([]) == '%'
'%s'.format([true]) == 'true'
1 in self.l
'x' in self.m
size(self.s) == 5
self.s.size() == 5
dyn(1) == dyn(1.0)
1 < 2.5
self.m['x'] == 'y'
self.l[0] == 3
self.l[?9].orValue(7) == 7
[1,2] + [3] == [1,2,3]
'a' + 'b' == 'ab'
'a' < 'b'
true || 1/0 == 1
1/0 == 1 || true
!(false && 1/0 == 1)
has(self.a)
!(has(self.zz))
!has(self.m.zz)
self.l.map(x, x * 2) == [6,2,4]
self.l.filter(x, x > 1) == [3,2]
self.m.all(k, k == 'x')
self.l.sum() == 6
string(1.5) == '1.5'
'a' in ['a']
null == null
self.?m.?x.orValue('') == 'y'
self.?m[?'x'].orValue('') == 'y'
[1, 2, 3].exists(x, x > 2)
'tacocat'.lastIndexOf('tac') == 0
'x'.substring(0,0) == ''
"%s|%s|%s|%s|%s".format([1.5, null, {"a":1}, ["x"], duration("90s")]) == '1.5|null|{"a":1}|["x"]|90s'
'%x|%X|%o|%b'.format([255,'ab',8,5]) == 'ff|6162|10|101'
'%b'.format([true]) == '1'
[1,2].reverse() == [2,1]
[3,1].sort() == [1,3]
[1,2].includes(2)
[1,1].distinct() == [1]
[1,2,3].slice(0,2) == [1,2]
sign(quantity('-1')) == -1
'%s'.format([timestamp('2024-02-29T10:20:30Z')]) == '2024-02-29T10:20:30Z'
""".strip().splitlines()

ERRORS = r"""
self.s.charAt(6) == ''
self.s.substring(3,1) == ''
self.s.substring(6) == ''
self.e.max() == 1
9223372036854775807 + 1 > 0
9223372036854775807 * 2 > 0
-9223372036854775807 - 2 < 0
self.a / 0 == 1
self.a % 0 == 1
self.?zz.orValue(1/0) == 1
self.?zz.value() == 5
self.l.exists(x, 1/(x-3) > 100)
quantity('500m').asInteger() == 1
quantity('1.5Gi').asInteger() == 1610612736
quantity('2') == quantity('1').add(quantity('1'))
self.m['z'] == 'y'
self.l[9] == 3
-(-9223372036854775807 - 1) == 0
(1/0 == 1) ? true : false
""".strip().splitlines()


def evaluated(text: str) -> object:
    return compile_expression(text, frozenset({"self"})).evaluate({"self": SELF})


def test_what_is_true() -> None:
    assert [text for text in TRUE if evaluated(text) is not True] == []


def test_what_is_an_error() -> None:
    values = []
    for text in ERRORS:
        try:
            values.append(f"{text}: {evaluated(text)}")
        except CelError:
            continue
    assert values == []


def test_the_default_of_an_optional_value_is_evaluated_only_where_it_is_missing() -> None:
    assert evaluated("self.?a.orValue(1 / 0)") == 5
    with pytest.raises(CelError, match="division by zero"):
        evaluated("self.?zz.orValue(1 / 0)")


def test_properties_with_signs_and_words_of_the_language_are_fields() -> None:
    assert evaluated("self.a__dot__b == 1 && self.__namespace__ == 'n' && has(self.namespace)") is True


def test_a_fraction_by_zero_is_infinite_or_no_number() -> None:
    assert evaluated("1.0 / 0.0 > 9e99 && -1.0 / 0.0 < -9e99 && 0.0 / 0.0 != 0.0 / 0.0") is True


def test_what_is_no_number_has_no_order() -> None:
    with pytest.raises(CelError, match="NaN values cannot be ordered"):
        evaluated("0.0 / 0.0 < 1.0")


def test_whole_numbers_have_64_bits() -> None:
    for text in ("9223372036854775807 + 1", "9223372036854775807 * 2", "-9223372036854775807 - 2"):
        with pytest.raises(CelError, match="integer overflow"):
            evaluated(text)
    for text in ("[9223372036854775807, 1].sum()", "[9223372036854775807, 1, -1].sum()"):
        with pytest.raises(CelError, match="integer overflow"):
            evaluated(text)
