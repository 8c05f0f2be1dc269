// The page in a real browser against the stand-in server, under the program's own policy.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { start_mock } from '../../mock/server.mjs';
import { parse_csv } from '../../src/csv.js';
import { chat_once, growth_steps, launch, note_growth, open_page, send, turn_over } from './browser.mjs';

const AXE = readFileSync(fileURLToPath(new URL('../../node_modules/axe-core/axe.min.js', import.meta.url)), 'utf8');
const POSITIVE = 'After three months the experiment finally worked!';

let browser;
let mock;
before(async () => {
  browser = await launch();
  mock = await start_mock();
});
after(async () => {
  await browser?.close();
  await mock?.close();
});

/** A test with a page of its own, after which nothing bad may have happened. */
function page_test(name, options, run) {
  test(name, { timeout: 60_000 }, async () => {
    const { page, context, bad } = await open_page(browser, options.address ?? mock.address, options);
    try {
      await run(page, context);
      assert.deepEqual(bad, []);
    } finally {
      await context.close();
    }
  });
}

/** Waits until what the stand-in server saw fulfils `holds`. */
async function until(page, holds) {
  for (let i = 0; i < 1000 && !holds(); i += 1) await page.waitForTimeout(20);
}

/** axe's serious and critical findings. Its script comes in through the debugger, past the policy. */
async function serious_findings(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, {
    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
  return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' | ').slice(0, 300)}`);
}

const is_wider_than_window = (page) => page.evaluate(() =>
  document.documentElement.scrollWidth > innerWidth
  || [...document.querySelectorAll('.messages, .page, .foot, .top')].some((node) => node.scrollWidth > node.clientWidth + 1));

describe('chat', () => {
  page_test('the reply streams, the feeling shows with its probabilities', {}, async (page) => {
    await note_growth(page);
    await send(page, `${POSITIVE} SLOW`);
    const badge = page.locator('summary.badge');
    await badge.waitFor();
    assert.match(await badge.innerText(), /😄\s*正面\s*positive\s*93%/);
    await turn_over(page);
    const steps = await growth_steps(page);
    assert.ok(steps > 3, `its text was shown in ${steps} lengths`);
    await badge.click();
    assert.deepEqual(await page.locator('.probabilities .number').allInnerTexts(), ['93%', '7%']);
    assert.match(await page.locator('.figures').innerText(), /40 tokens · first after [\d.]+ s · [\d.]+ tokens\/s/);
    assert.equal(await page.locator('.message.munia ol li').count(), 3);
  });

  page_test('without streaming the reply comes whole', {}, async (page) => {
    await page.getByRole('switch', { name: 'Stream' }).uncheck();
    assert.match(await chat_once(page, POSITIVE), /^That sounds really/);
    assert.equal(mock.state.completions.at(-1).stream, false);
  });

  page_test('stop stops: the server sees the connection close, the text stays', {}, async (page) => {
    const aborted = mock.state.aborted;
    await (await send(page, 'an ENDLESS story')).locator('.markdown').waitFor();
    await page.getByLabel('Message', { exact: true }).fill('a draft');
    await page.getByRole('button', { name: 'Stop' }).click();
    await turn_over(page);
    assert.equal(await page.getByLabel('Message', { exact: true }).inputValue(), 'a draft', 'Stop sends nothing');
    assert.match(await page.locator('.figures').innerText(), /stopped/);
    const text = await page.locator('.message.munia .markdown').innerText();
    assert.ok(text.length > 0);
    await until(page, () => mock.state.aborted > aborted);
    assert.equal(mock.state.aborted, aborted + 1);
    await chat_once(page, 'and then?');
    assert.equal(mock.state.completions.at(-1).messages.at(-2).content.trim().slice(0, 5), 'That ');
  });

  page_test('settings go out with the request; the history too', {}, async (page) => {
    await page.getByLabel('Max. length').fill('9');
    await page.getByRole('button', { name: 'Settings' }).click();
    await page.getByLabel('Temperature').fill('0.7');
    await page.getByLabel('System prompt').fill('Be brief.');
    await page.getByRole('button', { name: 'Done' }).click();
    await chat_once(page, 'first');
    assert.match(await page.locator('.figures').innerText(), /cut at the maximum length/);
    await chat_once(page, 'second');
    const sent = mock.state.completions.at(-1);
    assert.equal(sent.max_tokens, 9);
    assert.equal(sent.temperature, 0.7);
    assert.deepEqual(sent.messages.map(({ role }) => role), ['system', 'user', 'assistant', 'user']);
    assert.equal(sent.messages[0].content, 'Be brief.');
    await page.reload();
    assert.equal(await page.getByLabel('Max. length').inputValue(), '9');
  });

  page_test('hostile Markdown is harmless', {}, async (page) => {
    await chat_once(page, 'MARKUP');
    const reply = page.locator('.message.munia .markdown');
    assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
    assert.equal(await reply.locator('img, script, iframe, style, svg, input, [style], [onerror], [id], [class]').count(), 0);
    const links = await reply.locator('a[href]').evaluateAll((nodes) =>
      nodes.map((node) => [node.getAttribute('href'), node.target, node.rel]));
    assert.deepEqual(links.map(([href]) => href), ['http://example.invalid/spy.png', 'https://example.invalid/']);
    assert.ok(links.every(([, target, rel]) => target === '_blank' && rel.includes('noopener')));
    assert.match(await reply.innerText(), /<script>window\.hacked=1<\/script>/);
    assert.match(await reply.innerText(), /☑ done/);
    assert.equal(await reply.locator('td').count(), 2);
    assert.equal(await reply.locator('pre code').innerText(), 'const x = "<b>";\n');
  });

  page_test('failures are one clear sentence, and can be tried again', {}, async (page) => {
    const fail = async (word) => {
      const alert = (await send(page, word)).getByRole('alert');
      await alert.waitFor();
      return alert.innerText();
    };
    assert.equal(await fail('BUSY'), 'munia is busy: try again in 3 seconds.');
    assert.match(await fail('CONTEXT'), /outgrown the model’s context/);
    assert.match(await fail('BROKEN please'), /connection broke/);
    assert.ok((await page.locator('.message.munia .markdown').last().innerText()).length > 0, 'what came stays');
    const n = mock.state.completions.length;
    await page.getByRole('button', { name: 'Try again' }).click();
    await until(page, () => mock.state.completions.length > n);
    await page.waitForFunction(() => document.querySelectorAll('.message.munia [role=alert]').length === 3);
    assert.equal(mock.state.completions.length, n + 1);
    await page.route('**/v1/chat/completions', (route) => route.abort());
    assert.match(await fail('hello'), /does not answer/);
  });

  page_test('conversations are kept, named, deleted', {}, async (page) => {
    await chat_once(page, 'first conversation');
    await page.getByRole('button', { name: 'New conversation' }).click();
    await page.getByText('Say something.').waitFor();
    await chat_once(page, 'second conversation');
    await page.reload();
    const list = page.locator('.side .open');
    assert.deepEqual(await list.allInnerTexts(), ['second conversation', 'first conversation']);
    await list.nth(1).click();
    assert.equal(await page.locator('.bubble').innerText(), 'first conversation');
    assert.equal(await page.locator('summary.badge').count(), 1, 'the feeling is kept too');
    await list.nth(1).hover();
    await page.locator('.side').getByRole('button', { name: 'Rename' }).last().click();
    await page.getByLabel('Name of the conversation').fill('renamed');
    await page.keyboard.press('Enter');
    await page.locator('.side .open', { hasText: 'renamed' }).waitFor();
    await page.locator('.side').getByRole('button', { name: 'Delete' }).last().click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.waitForFunction(() => document.querySelectorAll('.side .open').length === 1);
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Clear' }).click();
    await page.getByText('Say something.').waitFor();
  });

  page_test('copy', { permissions: ['clipboard-read', 'clipboard-write'] }, async (page) => {
    await chat_once(page, 'copy me');
    await page.locator('.message.user').getByRole('button', { name: 'Copy' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'copy me');
  });

  page_test('nothing above moves while a reply grows; the end stays in view', { viewport: { width: 900, height: 420 } }, async (page) => {
    await (await send(page, `${POSITIVE} SLOW`)).locator('.markdown').waitFor();
    const shifts = await page.evaluate(() => new Promise((resolve) => {
      let sum = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) sum += entry.value;
      }).observe({ type: 'layout-shift' });
      setTimeout(() => resolve(sum), 2500);
    }));
    await turn_over(page);
    assert.ok(shifts < 0.05, `layout shift ${shifts}`);
    const left = await page.locator('.scroller').evaluate((node) => node.scrollHeight - node.scrollTop - node.clientHeight);
    assert.ok(left < 4, `${left} px below the window`);
  });

  page_test('while an input method composes, Enter does not send', {}, async (page) => {
    const n = mock.state.completions.length;
    const field = page.getByLabel('Message', { exact: true });
    await field.fill('ni');
    await field.dispatchEvent('keydown', { key: 'Enter', keyCode: 229, isComposing: true, bubbles: true });
    await page.waitForTimeout(100);
    assert.equal(mock.state.completions.length, n);
    await page.keyboard.press('Shift+Enter');
    assert.equal(await field.inputValue(), 'ni\n');
  });
});

describe('batch', () => {
  const csv = Buffer.from('\ufeffid,评论,stars\r\n1,"很满意，""快""",5\r\n2,又差又贵,1\r\n3,,3\r\n4,=1+1 good,4\r\n5,又差又贵,1\r\n');

  page_test('labels a CSV and gives it back', {}, async (page) => {
    await page.getByRole('tab', { name: 'Batch' }).click();
    await page.locator('input[type=file]').setInputFiles({ name: '评论.csv', mimeType: 'text/csv', buffer: csv });
    await page.getByText('评论.csv: 5 rows').waitFor();
    assert.equal(await page.getByLabel('Column with the texts').inputValue(), '1');
    await page.getByLabel('Labels', { exact: true }).selectOption('sentiment-3');
    const before_run = mock.state.classified;
    await page.getByRole('button', { name: 'Label 4 texts' }).click();
    await page.getByText('Done: 4 texts labelled.').waitFor();
    assert.equal(mock.state.classified, before_run + 3, 'equal texts are asked once');
    assert.deepEqual(await page.locator('.bars .number').allInnerTexts(), ['2 · 50%', '2 · 50%']);
    assert.equal(await page.locator('tbody tr').count(), 4);
    const waiting = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download CSV' }).click();
    const download = await waiting;
    assert.equal(download.suggestedFilename(), '评论-labels.csv');
    const text = readFileSync(await download.path(), 'utf8');
    assert.ok(text.startsWith('\ufeff'));
    const rows = parse_csv(text, ',');
    assert.deepEqual(rows[0], ['id', '评论', 'stars', 'label', 'confidence', 'p_Positive', 'p_Neutral', 'p_Negative']);
    assert.deepEqual(rows.slice(1).map((row) => row[3]), ['Positive', 'Negative', '', 'Positive', 'Negative']);
    assert.equal(rows[4][1], "'=1+1 good");
  });

  page_test('GB18030, dropped on the page, own labels', {}, async (page) => {
    await page.getByRole('tab', { name: 'Batch' }).click();
    const bytes = [0xba, 0xc3, 0x0a, 0xb2, 0xee, 0x0a]; // 好 差
    await page.locator('.input').evaluate((node, data) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([new Uint8Array(data)], 'gb.txt'));
      node.dispatchEvent(new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }, bytes);
    await page.getByText('gb.txt: 2 rows').waitFor();
    await page.getByLabel('Labels', { exact: true }).selectOption('own');
    await page.getByRole('button', { name: 'Label 2 texts' }).click();
    assert.equal(await page.getByRole('alert').innerText(), 'Give at least two different labels.');
    await page.getByLabel('Your labels').fill('praise，complaint');
    await page.getByRole('button', { name: 'Label 2 texts' }).click();
    await page.getByText('Done: 2 texts labelled.').waitFor();
    assert.deepEqual(await page.locator('tbody .text').allInnerTexts(), ['好', '差']);
    assert.match((await page.locator('tbody .label').allInnerTexts()).join(), /complaint/);
  });

  page_test('progress, stop, go on; a busy server is waited for', {}, async (page) => {
    await page.getByRole('tab', { name: 'Batch' }).click();
    await page.getByLabel('Texts, one a line').fill(Array.from({ length: 30 }, (_, i) => `good ${i} SLOW${i === 0 ? ' BUSY' : ''}`).join('\n'));
    await page.getByRole('button', { name: 'Label 30 texts' }).click();
    await page.getByText('The server is busy').waitFor();
    await page.waitForFunction(() => document.querySelector('progress')?.value >= 4);
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText(/Stopped after \d+ of 30 texts/).waitFor();
    const done = await page.locator('tbody tr').count();
    assert.ok(done >= 4 && done < 30, `${done}`);
    await page.waitForFunction(() => document.activeElement.textContent.startsWith('Label 30'), null, { timeout: 5000 });
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByText('Done: 30 texts labelled.').waitFor();
  });

  page_test('a text that is refused does not stop the others', {}, async (page) => {
    await page.getByRole('tab', { name: 'Batch' }).click();
    await page.getByLabel('Texts, one a line').fill('good\nCONTEXT much too long\nbad');
    await page.getByRole('button', { name: 'Label 3 texts' }).click();
    await page.getByText('Done: 2 texts labelled. 1 rejected').waitFor();
    assert.match(await page.locator('.refused').innerText(), /too long/);
  });
});

describe('monitor', () => {
  page_test('draws, and says when the server is gone', {}, async (page) => {
    await page.getByRole('tab', { name: 'Monitor' }).click();
    await page.getByText('qwen1.5-0.5b-chat').waitFor();
    assert.equal(await page.locator('.plot canvas').count(), 5);
    await page.waitForFunction(() => [...document.querySelectorAll('.values dd')].every((node) => node.textContent !== '–'));
    await page.waitForTimeout(1500);
    const inked = await page.locator('.plot canvas').evaluateAll((nodes) => nodes.map((node) => {
      const pixels = node.getContext('2d').getImageData(0, 0, node.width, node.height).data;
      const colours = new Set();
      for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3] > 200) colours.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
      return colours.size;
    }));
    assert.ok(inked.every((n) => n > 3), `colours: ${inked}`);
    await page.route('**/stats', (route) => route.abort());
    await page.getByText('munia does not answer; the charts go on').waitFor();
    await page.unroute('**/stats');
    await page.getByText('munia does not answer; the charts go on').waitFor({ state: 'detached' });
  });
});

describe('for everyone', () => {
  page_test('the whole chat by keyboard', {}, async (page) => {
    await page.getByRole('tab', { name: 'Chat' }).focus();
    await page.keyboard.press('ArrowRight');
    assert.equal(await page.getByRole('tab', { name: 'Batch' }).getAttribute('aria-selected'), 'true');
    await page.keyboard.press('End');
    assert.ok(await page.locator('#panel-monitor').isVisible());
    await page.keyboard.press('Home');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'tab-chat', 'the focus stays on the tabs');
    for (let i = 0; i < 20; i += 1) {
      if (await page.evaluate(() => document.activeElement.matches('.composer textarea'))) break;
      await page.keyboard.press('Tab');
    }
    await page.keyboard.type('hello');
    await page.keyboard.press('Enter');
    await turn_over(page);
    for (let i = 0; i < 20; i += 1) {
      if (await page.evaluate(() => document.activeElement.matches('summary'))) break;
      await page.keyboard.press('Shift+Tab');
    }
    await page.keyboard.press('Enter');
    await page.locator('.probabilities').waitFor();
    await page.getByRole('button', { name: 'Settings' }).press('Enter');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Settings');
  });

  page_test('a screen reader hears the feeling and the reply once', {}, async (page) => {
    await page.evaluate(() => {
      globalThis.heard = [];
      const node = document.querySelector('[role=status].spoken');
      new MutationObserver(() => globalThis.heard.push(node.textContent)).observe(node, { childList: true, characterData: true, subtree: true });
    });
    await chat_once(page, POSITIVE);
    await page.waitForFunction(() => globalThis.heard.length >= 2);
    const heard = await page.evaluate(() => globalThis.heard);
    assert.equal(heard[0], 'Feeling: positive, 93%');
    assert.match(heard[1], /frustrating/);
    assert.equal(heard.length, 2);
  });

  page_test('Chinese by the browser, English by a click, kept', { locale: 'zh-CN' }, async (page) => {
    assert.equal(await page.locator('html').getAttribute('lang'), 'zh-CN');
    await page.getByText('说点什么吧。').waitFor();
    await page.getByRole('button', { name: 'Switch to English' }).click();
    await page.getByText('Say something.').waitFor();
    await page.reload();
    await page.getByText('Say something.').waitFor();
    assert.equal(await page.locator('html').getAttribute('lang'), 'en');
  });

  for (const scheme of ['light', 'dark']) {
    for (const [size, viewport] of Object.entries({ desk: { width: 1280, height: 800 }, phone: { width: 320, height: 640 } })) {
      page_test(`axe finds nothing serious, nothing is too wide: ${scheme}, ${size}`, { colorScheme: scheme, viewport }, async (page) => {
        const findings = [];
        const look = async (where) => {
          for (const finding of await serious_findings(page)) findings.push(`${where}: ${finding}`);
          if (await is_wider_than_window(page)) findings.push(`${where}: wider than the window`);
        };
        await look('empty');
        await chat_once(page, 'MARKUP');
        await page.locator('summary.badge').first().click();
        await look('chat');
        await (await send(page, 'BUSY')).getByRole('alert').waitFor();
        await look('error');
        await page.getByRole('button', { name: 'Settings' }).click();
        await look('settings');
        await page.keyboard.press('Escape');
        if (size === 'phone') {
          await page.getByRole('button', { name: 'Conversations' }).click();
          await look('drawer');
          await page.keyboard.press('Escape');
        }
        await page.getByRole('tab', { name: 'Batch' }).click();
        await page.getByLabel('Texts, one a line').fill(Array.from({ length: 60 }, (_, i) => `good ${i}\nbad ${i}`).join('\n'));
        await page.getByRole('button', { name: 'Label 120 texts' }).click();
        await page.getByText('Done: 120 texts labelled.').waitFor();
        await look('batch');
        await page.getByRole('tab', { name: 'Monitor' }).click();
        await page.waitForTimeout(1200);
        await look('monitor');
        assert.deepEqual(findings, []);
        const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        assert.equal(ground, scheme === 'dark' ? 'rgb(21, 24, 28)' : 'rgb(247, 244, 239)');
      });
    }
  }

  test('a server with an API key: the page says so, and works once it is given', { timeout: 60_000 }, async () => {
    const locked = await start_mock({ need_key: 'secret' });
    const { page, context, bad } = await open_page(browser, locked.address);
    try {
      await page.getByLabel('Message', { exact: true }).fill('hello');
      await page.keyboard.press('Enter');
      assert.match(await page.getByRole('alert').first().innerText(), /asks for an API key/);
      await page.getByRole('button', { name: 'Settings' }).click();
      await page.getByLabel('API key').fill('secret');
      await page.getByRole('button', { name: 'Done' }).click();
      await page.getByRole('button', { name: 'Try again' }).click();
      await page.locator('.message.munia .markdown').waitFor();
      assert.deepEqual(bad, []);
    } finally {
      await context.close();
      await locked.close();
    }
  });
});
