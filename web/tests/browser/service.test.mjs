// The page as `munia serve` itself serves it, on a real model: MUNIA_TEST_URL is its address. What
// the model says does not matter here; that it streams, is felt, labelled and drawn does.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { chat_once, growth_steps, launch, note_growth, open_page, send, turn_over } from './browser.mjs';

const ADDRESS = process.env.MUNIA_TEST_URL;
const skip = ADDRESS ? false : 'MUNIA_TEST_URL is not set';
const MINUTES = 60_000;

let browser;
before(async () => {
  if (skip) return;
  browser = await launch();
  for (let i = 0; i < 600; i += 1) {
    if ((await fetch(new URL('ready', ADDRESS)).catch(() => ({ ok: false }))).ok) return;
    await new Promise((resolve) => { setTimeout(resolve, 200); });
  }
  throw new Error('the service was not ready within two minutes');
});
after(() => browser?.close());

function service_test(name, run) {
  test(name, { skip, timeout: 5 * MINUTES }, async () => {
    const { page, context, bad } = await open_page(browser, ADDRESS);
    page.setDefaultTimeout(2 * MINUTES);
    try {
      await run(page);
      assert.deepEqual(bad, []);
    } finally {
      await context.close();
    }
  });
}

test('every file has the policy, a tag, and is compressed', { skip }, async () => {
  const start = await fetch(ADDRESS);
  const html = await start.text();
  const paths = [...html.matchAll(/(?:src|href)="\.\/(assets\/[^"]+)"/g)].map((match) => match[1]);
  assert.ok(paths.length >= 3, html);
  for (const path of ['', ...paths]) {
    const reply = await fetch(new URL(path, ADDRESS), { headers: { 'accept-encoding': 'gzip' } });
    assert.equal(reply.status, 200, path);
    await reply.arrayBuffer();
    const policy = reply.headers.get('content-security-policy');
    assert.match(policy, /default-src 'none'/);
    assert.doesNotMatch(policy, /unsafe|https?:/);
    assert.equal(reply.headers.get('x-content-type-options'), 'nosniff');
    assert.equal(reply.headers.get('content-encoding'), 'gzip', path);
    const etag = reply.headers.get('etag');
    assert.ok(etag, path);
    const again = await fetch(new URL(path, ADDRESS), { headers: { 'if-none-match': etag } });
    assert.equal(again.status, 304, path);
  }
});

service_test('a reply streams, its message has a feeling with probabilities', async (page) => {
  await page.getByLabel('Max. length').fill('60');
  await note_growth(page);
  await chat_once(page, '今天的实验终于成功了，太棒了！');
  assert.ok(await growth_steps(page) >= 2, 'it came in pieces');
  await page.locator('summary.badge').click();
  const shares = await page.locator('.probabilities .number').allInnerTexts();
  assert.equal(shares.length, 2);
  assert.ok(shares.every((share) => /%$/.test(share)));
  assert.match(await page.locator('.figures').innerText(), /\d+ tokens · first after/);
  assert.equal(await page.getByRole('alert').count(), 0);
});

service_test('a second turn, without streaming', async (page) => {
  await page.getByLabel('Max. length').fill('12');
  await chat_once(page, 'My name is Wen.');
  await page.getByRole('switch', { name: 'Stream' }).uncheck();
  await chat_once(page, 'What is my name?');
  assert.equal(await page.locator('.message.munia .markdown').count(), 2);
  assert.equal(await page.getByRole('alert').count(), 0);
});

service_test('stop stops, and the next message is answered', async (page) => {
  await page.getByLabel('Max. length').fill('900');
  await (await send(page, 'Count from one to five hundred in words.')).locator('.markdown').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await turn_over(page);
  assert.match(await page.locator('.figures').innerText(), /stopped/);
  // The slot is free again.
  for (let i = 0; ; i += 1) {
    const stats = await (await fetch(new URL('stats', ADDRESS))).json();
    if (stats.requests.running === 0) break;
    assert.ok(i < 100, 'the stopped reply still runs');
    await page.waitForTimeout(50);
  }
  await page.getByLabel('Max. length').fill('5');
  await chat_once(page, 'Hello.');
});

service_test('a batch from a CSV', async (page) => {
  await page.getByRole('tab', { name: 'Batch' }).click();
  const buffer = Buffer.from('id,text\n1,物流很快，很满意\n2,"又贵,又差"\n3,\n4,I love it\n');
  await page.locator('input[type=file]').setInputFiles({ name: 'a.csv', mimeType: 'text/csv', buffer });
  await page.getByRole('button', { name: 'Label 3 texts' }).click();
  await page.getByText('Done: 3 texts labelled.').waitFor();
  assert.equal(await page.locator('tbody tr').count(), 3);
  await page.locator('#batch-task').selectOption('own');
  await page.getByLabel('Your labels').fill('praise, complaint, question');
  await page.getByRole('button', { name: 'Label 3 texts' }).click();
  await page.getByText('Done: 3 texts labelled.').waitFor();
  for (const label of await page.locator('tbody .label').allInnerTexts()) {
    assert.match(label, /praise|complaint|question/);
  }
});

service_test('the monitor has every figure', async (page) => {
  await page.getByRole('tab', { name: 'Monitor' }).click();
  await page.waitForFunction(() =>
    [...document.querySelectorAll('.values dd')].every((node) => node.textContent !== '–'));
  assert.equal(await page.locator('.plot canvas').count(), 5);
  const facts = await page.locator('.facts dt').allInnerTexts();
  for (const fact of ['Model', 'Weights', 'Instructions', 'Threads', 'Running for', 'Requests so far']) {
    assert.ok(facts.includes(fact), `no ${fact} among ${facts}`);
  }
});
