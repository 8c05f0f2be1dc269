import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  decode_text, guess_column, guess_delimiter, parse_csv, parse_lines, write_cell, write_csv,
} from '../../src/csv.js';

const bytes = (...values) => new Uint8Array(values);

test('records of RFC 4180: quotes, commas, line ends inside quotes', () => {
  assert.deepEqual(parse_csv('a,b\r\n"x, ""y""",2\n"line\r\none",\n'),
    [['a', 'b'], ['x, "y"', '2'], ['line\r\none', '']]);
});

test('last record without a line end, empty last field, empty lines', () => {
  assert.deepEqual(parse_csv('a,b\n\n\r\n1,'), [['a', 'b'], ['1', '']]);
  assert.deepEqual(parse_csv('""\n"",""\n'), [['', '']]);
  assert.deepEqual(parse_csv(''), []);
  assert.deepEqual(parse_csv('\ufeffa\rb'), [['a'], ['b']]);
});

test('broken quoting loses no text', () => {
  assert.deepEqual(parse_csv('"open, to the end\nof the file'), [['open, to the end\nof the file']]);
  assert.deepEqual(parse_csv('"a"b,c"d\n'), [['ab', 'c"d']]);
});

test('the delimiter is the one that the first record has most of', () => {
  assert.equal(guess_delimiter('a;b;c\n1,2,3,4,5'), ';');
  assert.equal(guess_delimiter('"a;b;c;d",x\n'), ',');
  assert.equal(guess_delimiter('a\tb'), '\t');
  assert.equal(guess_delimiter('one column'), ',');
});

test('bytes are read by their mark, else UTF-8, else GB18030', () => {
  assert.equal(decode_text(new TextEncoder().encode('好')), '好');
  assert.equal(decode_text(bytes(0xef, 0xbb, 0xbf, 0x61)), 'a');
  assert.equal(decode_text(bytes(0xff, 0xfe, 0x7d, 0x59)), '好');
  assert.equal(decode_text(bytes(0xfe, 0xff, 0x59, 0x7d)), '好');
  assert.equal(decode_text(bytes(0xba, 0xc3)), '好');
});

test('what is written is read back', () => {
  const rows = [['text', 'p'], ['a "b", c', '0.5'], ['two\nlines', ''], ['; semicolon', '-3.5'], [' space ', 'é好']];
  assert.deepEqual(parse_csv(write_csv(rows), ','), rows);
  assert.ok(write_csv(rows).startsWith('\ufefftext,p\r\n'));
});

test('no cell is a formula', () => {
  for (const text of ['=1+1', '+cmd', '-cmd', '@sum(a)', '\t=1', '\r=1', ' =1', '＝1', '=HYPERLINK("x";"y")']) {
    assert.match(write_cell(text), /^"?'/, text);
  }
  for (const number of ['-1', '+2.5', '-1e-5', '.5']) assert.equal(write_cell(number), number);
  assert.equal(write_cell(0.25), '0.25');
  assert.equal(write_cell(null), '');
});

test('the column of texts is found by name, else by length', () => {
  assert.equal(guess_column(['id', 'Review', 'stars'], []), 1);
  assert.equal(guess_column(['编号', '评论'], []), 1);
  assert.equal(guess_column(['a', 'b'], [['2024-01-01 10:00:00 00:00', 'fine'], ['1', 'nice one']]), 1);
  assert.equal(guess_column(['only'], []), 0);
});

test('lines', () => {
  assert.deepEqual(parse_lines('\ufeffa\r\n \nb\rc\n'), ['a', 'b', 'c']);
});
