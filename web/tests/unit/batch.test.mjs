import assert from 'node:assert/strict';
import { test } from 'node:test';
import { count_labels, open_texts, result_table, run_batch, split_labels } from '../../src/batch_run.js';

class Refusal extends Error {
  constructor(kind, more = {}) {
    super(kind);
    Object.assign(this, { kind, param: null, retry_after_s: null }, more);
  }
}
const label = (text) => ({ label: text, confidence: 1, probabilities: { [text]: 1 } });
const run = (texts, classify, more = {}) => {
  const results = more.results ?? new Array(texts.length);
  return { results, ended: run_batch({
    texts, results, classify, on_progress: () => {}, pause: async () => {}, ...more }) };
};

test('each different text is asked once, in order; empty ones are not asked', async () => {
  const asked = [];
  const { results, ended } = run(['a', 'b', ' ', 'a', 'c'], async (texts) => {
    asked.push(...texts);
    return texts.map(label);
  });
  await ended;
  assert.deepEqual(asked, ['a', 'b', 'c']);
  assert.deepEqual(Array.from(results, (result) => result?.label), ['a', 'b', undefined, 'a', 'c']);
});

test('pieces stay within the limits of a request', async () => {
  const sizes = [];
  const texts = Array.from({ length: 3000 }, (_, i) => `${i}`);
  texts.push('x'.repeat(90_000), 'y'.repeat(90_000));
  const { results, ended } = run(texts, async (piece) => {
    sizes.push(piece.length);
    assert.ok(piece.length === 1 || piece.join('').length <= 100_000);
    return piece.map(label);
  });
  await ended;
  assert.equal(results.filter(Boolean).length, 3002);
  assert.ok(Math.max(...sizes) <= 256);
  assert.ok(sizes.length < 60, `${sizes.length} requests`);
});

test('a busy server is waited for as long as it says', async () => {
  const waits = [];
  let n = 0;
  const { results, ended } = run(['a'], async (texts) => {
    n += 1;
    if (n === 1) throw new Refusal('busy', { retry_after_s: 7 });
    if (n === 2) throw new Refusal('unavailable');
    return texts.map(label);
  }, { pause: async (ms) => waits.push(ms) });
  await ended;
  assert.deepEqual(waits, [7000, 2000]);
  assert.equal(results[0].label, 'a');
});

test('a server that stays busy ends the run', async () => {
  const { ended } = run(['a'], async () => { throw new Refusal('busy'); });
  await assert.rejects(ended, { kind: 'busy' });
});

test('a refused text is found, the others are labelled', async () => {
  const texts = Array.from({ length: 40 }, (_, i) => (i === 23 ? 'too long' : `t${i}`));
  const { results, ended } = run(texts, async (piece) => {
    if (piece.includes('too long')) throw new Refusal('context');
    return piece.map(label);
  });
  await ended;
  assert.equal(results[23].error, 'context');
  assert.equal(results.filter((result) => result.label).length, 39);
});

test('a refused text that the server names costs one request', async () => {
  let n = 0;
  const { results, ended } = run(['a', 'b', 'bad', 'c'], async (piece) => {
    n += 1;
    const at = piece.indexOf('bad');
    if (at >= 0) throw new Refusal('context', { param: `texts[${at}]` });
    return piece.map(label);
  });
  await ended;
  assert.equal(n, 2);
  assert.deepEqual(results.map((result) => result.label ?? result.error), ['a', 'b', 'context', 'c']);
});

test('when nothing is accepted, or the labels are wrong, the run ends early', async () => {
  let n = 0;
  const texts = Array.from({ length: 1000 }, (_, i) => `t${i}`);
  await assert.rejects(run(texts, async () => {
    n += 1;
    throw new Refusal('refused');
  }).ended, { kind: 'refused' });
  assert.ok(n < 30, `${n} requests`);
  n = 0;
  await assert.rejects(run(texts, async () => {
    n += 1;
    throw new Refusal('refused', { param: 'labels' });
  }).ended, { kind: 'refused' });
  assert.equal(n, 1);
});

test('what is done is kept when it is stopped, and not asked again', async () => {
  const controller = new AbortController();
  const texts = Array.from({ length: 20 }, (_, i) => `t${i}`);
  const first = run(texts, async (piece) => {
    controller.abort();
    return piece.map(label);
  }, { signal: controller.signal });
  await assert.rejects(first.ended, { name: 'AbortError' });
  const done = first.results.filter(Boolean).length;
  assert.ok(done > 0 && done < 20);
  assert.equal(open_texts(texts, first.results).size, 20 - done);
  let asked = 0;
  await run(texts, async (piece) => {
    asked += piece.length;
    return piece.map(label);
  }, { results: first.results }).ended;
  assert.equal(asked, 20 - done);
});

test('the table keeps the input and adds columns; taken names get a prefix', () => {
  const results = [
    { label: '正面', confidence: 0.9, probabilities: { 正面: 0.9, 负面: 0.1 } }, undefined, { error: 'no' }];
  assert.deepEqual(result_table(['id', 'label'], [['1', 'x'], ['2'], ['3', 'z']], results), [
    ['id', 'label', 'munia_label', 'confidence', 'p_正面', 'p_负面', 'error'],
    ['1', 'x', '正面', '0.9', '0.9', '0.1', ''],
    ['2', '', '', '', '', '', ''],
    ['3', 'z', '', '', '', '', 'no'],
  ]);
});

test('labels are counted and split', () => {
  assert.deepEqual(count_labels([label('a'), undefined, label('b'), label('b'), { error: 'x' }]), [['b', 2], ['a', 1]]);
  assert.deepEqual(split_labels('表扬，投诉、咨询, 表扬;\n'), ['表扬', '投诉', '咨询']);
});
