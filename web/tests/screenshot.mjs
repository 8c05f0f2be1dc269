// Writes docs/images/page.png: a chat in both languages with the service at MUNIA_TEST_URL, or with
// the stand-in server (then the words are made up: not for the README).
import { mkdirSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { start_mock } from '../mock/server.mjs';
import { chat_once, launch, open_page } from './browser/browser.mjs';

const OUT = fileURLToPath(new URL('../../docs/images/page.png', import.meta.url));
const MAX_BYTES = 300_000;

const browser = await launch();
const mock = process.env.MUNIA_TEST_URL ? null : await start_mock({ token_ms: 22 });
const address = process.env.MUNIA_TEST_URL ?? mock.address;
try {
  const { page } = await open_page(browser, address, { viewport: { width: 1120, height: 800 } });
  for (const text of ['What rhymes with feather?', '今天的实验终于成功了，太棒了！']) {
    await chat_once(page, text);
    await page.getByRole('button', { name: 'New conversation' }).first().click();
  }
  await chat_once(page, '排队两小时，饭菜还是凉的，太失望了。');
  await chat_once(page, 'I finally passed my driving test! How should I celebrate? Give me three ideas.');
  await page.locator('summary.badge').last().click();
  await page.locator('.scroller').evaluate((node) => { node.scrollTop = node.scrollHeight; });
  await page.mouse.move(700, 790);
  await page.waitForTimeout(300);
  mkdirSync(fileURLToPath(new URL('../../docs/images', import.meta.url)), { recursive: true });
  await page.screenshot({ path: OUT });
  const { size } = statSync(OUT);
  if (size > MAX_BYTES) throw new Error(`${OUT} has ${size} bytes; at most ${MAX_BYTES}`);
  console.log(`docs/images/page.png: ${size} bytes`);
} finally {
  await browser.close();
  await mock?.close();
}
