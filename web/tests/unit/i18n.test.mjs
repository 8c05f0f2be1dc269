import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import {
  choose_language, describe_error, format_bytes, format_duration, label_gloss, translate,
} from '../../src/i18n.js';
import { STRINGS } from '../../src/strings.js';

const SRC = fileURLToPath(new URL('../../src', import.meta.url));
const fields = (sentence) => (sentence.match(/\{\w+\}/g) ?? []).sort();

test('both languages have the same sentences with the same fields', () => {
  assert.deepEqual(Object.keys(STRINGS.zh).sort(), Object.keys(STRINGS.en).sort());
  for (const key of Object.keys(STRINGS.en)) {
    assert.deepEqual(fields(STRINGS.zh[key]), fields(STRINGS.en[key]), key);
    assert.ok(STRINGS.en[key].trim() && STRINGS.zh[key].trim(), key);
  }
});

test('Chinese sentences are Chinese, English ones English', () => {
  const other_language = new Set(['switch_language', 'language_short', 'example_3', 'batch_task_sentiment',
    'batch_task_sentiment_3', 'chart_cpu']);
  for (const [key, sentence] of Object.entries(STRINGS.en)) {
    if (!other_language.has(key)) assert.doesNotMatch(sentence, /[\u3400-\u9fff]/, key);
  }
  for (const [key, sentence] of Object.entries(STRINGS.zh)) {
    const words = sentence.replace(/\{\w+\}|token/g, '');
    if (!other_language.has(key) && /[A-Za-z]/.test(words)) assert.match(sentence, /[\u3400-\u9fff]/, key);
  }
});

test('every sentence that the sources ask for is there, and none is left over', () => {
  const text = readdirSync(SRC).filter((name) => /\.jsx?$/.test(name) && name !== 'strings.js')
    .map((name) => readFileSync(join(SRC, name), 'utf8')).join('\n');
  for (const [, key] of text.matchAll(/\btt?\('(\w+)'/g)) assert.ok(key in STRINGS.en, key);
  const made_up = /^(tab|example|error)_/; // asked for as t(`error_${kind}`)
  for (const key of Object.keys(STRINGS.en)) {
    assert.ok(made_up.test(key) || new RegExp(`'${key}'`).test(text), `${key} is never used`);
  }
});

test('the language is the first one that is known', () => {
  assert.equal(choose_language(['zh-TW', 'en']), 'zh');
  assert.equal(choose_language(['fr-FR', 'en-GB', 'zh']), 'en');
  assert.equal(choose_language(['fr']), 'en');
  assert.equal(choose_language(undefined), 'en');
});

test('fields are filled in; an unknown sentence is a mistake', () => {
  assert.equal(translate('en', 'tokens_n', { n: 3 }), '3 tokens');
  assert.throws(() => translate('en', 'nothing'));
});

test('every kind of failure is one sentence', () => {
  for (const lang of ['en', 'zh']) {
    const t = (key, values) => translate(lang, key, values);
    for (const kind of ['offline', 'cut', 'key', 'busy', 'unavailable', 'context', 'refused', 'failed']) {
      const sentence = describe_error(t, { kind, message: 'm', retry_after_s: 2.2 });
      assert.doesNotMatch(sentence, /undefined|null|\{/, kind);
    }
    assert.match(describe_error(t, { kind: 'busy', retry_after_s: 2.2 }), /3/);
    assert.match(describe_error(t, new TypeError('odd')), /odd/);
  }
});

test('numbers', () => {
  assert.equal(format_duration('en', 3725), '1 h 2 min');
  assert.equal(format_duration('zh', 65), '1 分 5 秒');
  assert.equal(format_duration('en', NaN), '–');
  assert.equal(format_bytes(1.34e9), '1.34 GB');
  assert.equal(format_bytes(0), '0 B');
  assert.equal(label_gloss('en', 'positive', '正面'), 'positive');
  assert.equal(label_gloss('zh', 'positive', '正面'), '');
  assert.equal(label_gloss('zh', 'positive', 'Positive'), '正面');
});
