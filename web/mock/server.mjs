// A stand-in for `munia serve`, for working on the page and for its browser test: the same routes and
// forms, made-up answers. Serves web/dist under the program's own policy, which it reads from
// src/server/page.h. `node mock/server.mjs [PORT]` prints its address.
//
// A message that holds one of these words makes it do something: BUSY (429), BROKEN (the connection
// breaks in mid-reply), CONTEXT (400), SLOW (a token each 100 ms), ENDLESS (nothing more comes
// after some tokens, until the page hangs up), MARKUP (hostile Markdown).
// GET /mock/state tells what it has seen.
import { readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname, extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const WEB = join(dirname(fileURLToPath(import.meta.url)), '..');
const DIST = join(WEB, 'dist');
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml' };

/** kContentSecurityPolicy of page.h: its literals joined. */
function read_policy() {
  const text = readFileSync(join(WEB, '..', 'src', 'server', 'page.h'), 'utf8');
  const declaration = /kContentSecurityPolicy\s*=\s*((?:"[^"]*"\s*)+);/.exec(text);
  return [...declaration[1].matchAll(/"([^"]*)"/g)].map((match) => match[1]).join('');
}

export const MARKUP = [
  '**bold** <img src="http://example.invalid/x.png" onerror="window.hacked=1">',
  '![spy](http://example.invalid/spy.png)',
  '<script>window.hacked=1</script>',
  '[bad](javascript:window.hacked=1) [good](https://example.invalid/)',
  '<a href="data:text/html,x" style="color:red">styled</a>',
  '- [x] done',
  '| a | b |\n|---|---|\n| 1 | 2 |',
  '```js\nconst x = "<b>";\n```',
].join('\n\n');

const REPLY = {
  zh: '**太好了！** 坚持这么久终于有了结果，真为你高兴。\n\n接下来可以：\n\n1. 把这次成功的条件记下来\n'
    + '2. 重复一次，看看结果是否稳定\n3. 好好休息，和朋友庆祝一下 🎉',
  en: 'That sounds **really** frustrating. Waiting so long only to get a cold meal would annoy anyone.\n\n'
    + 'You could:\n\n1. Tell the staff calmly what happened\n2. Ask for a fresh plate or a refund\n'
    + '3. Leave a short, fair review',
};

const POSITIVE = /成功|太棒|高兴|喜欢|满意|worked|great|love|good|nice|finally/i;
const NEGATIVE = /差|凉|失望|糟|排队|cold|bad|broken|hate|queue|terrible/i;

function classify(text, labels) {
  const good = POSITIVE.test(text) ? 0.93 : NEGATIVE.test(text) ? 0.04 : 0.45;
  const p = labels.map((label, i) =>
    (/正面|positive|praise/i.test(label) ? good : /负面|negative|complaint/i.test(label) ? 1 - good : 0.1 / (i + 1)));
  const sum = p.reduce((a, b) => a + b, 0);
  const probabilities = Object.fromEntries(labels.map((label, i) => [label, p[i] / sum]));
  const label = labels.reduce((best, one) => (probabilities[one] > probabilities[best] ? one : best));
  return { label, confidence: probabilities[label], probabilities };
}

const labels_of = (body) => body.labels
  ?? (body.task === 'sentiment-3' ? ['Positive', 'Neutral', 'Negative'] : ['正面', '负面']);
const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

export function create_mock({ token_ms = 12, need_key = null } = {}) {
  const policy = read_policy();
  const state = { aborted: 0, completions: [], predicts: 0, classified: 0, classify_sizes: [] };
  const started = Date.now();
  let running = 0;
  let busy_left = 1;

  const send_json = (reply, status, value, headers = {}) => {
    reply.writeHead(status, { 'content-type': 'application/json', 'x-request-id': 'mock', ...headers });
    reply.end(JSON.stringify(value));
  };
  const fail = (reply, status, message, code = null, headers = {}, param = null) =>
    send_json(reply, status, { error: { message, type: 'invalid_request_error', param, code } }, headers);
  const read_body = async (request) => {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    return JSON.parse(Buffer.concat(pieces).toString('utf8'));
  };

  async function complete(reply, body) {
    const text = body.messages.at(-1).content;
    state.completions.push(body);
    if (text.includes('BUSY')) return fail(reply, 429, 'the queue is full', 'queue_full', { 'retry-after': '3' });
    if (text.includes('CONTEXT')) return fail(reply, 400, 'too long', 'context_length_exceeded');
    const full = text.includes('MARKUP') ? MARKUP : REPLY[/[\u3400-\u9fff]/.test(text) ? 'zh' : 'en'];
    const tokens = full.match(/[\u3400-\u9fff，。！？：]{1,2}|\s*[^\s\u3400-\u9fff]+|\s+/gu).slice(0, body.max_tokens);
    const finish_reason = tokens.join('').length < full.length ? 'length' : 'stop';
    const usage = { prompt_tokens: 40, completion_tokens: tokens.length, total_tokens: 40 + tokens.length };
    const about = { id: 'chatcmpl-1', created: 1, model: 'mock' };
    running += 1;
    let gone = false;
    reply.on('close', () => {
      if (!reply.writableFinished) {
        gone = true;
        state.aborted += 1;
      }
      running -= 1;
    });
    if (!body.stream) {
      await sleep(token_ms * tokens.length);
      return send_json(reply, 200, { ...about, object: 'chat.completion', usage,
        choices: [{ index: 0, message: { role: 'assistant', content: tokens.join('') }, finish_reason }] });
    }
    reply.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
    const event = (fields) => reply.write(
      `data: ${JSON.stringify({ ...about, object: 'chat.completion.chunk', usage: null, ...fields })}\n\n`);
    const choice = (delta, reason = null) => ({ choices: [{ index: 0, delta, finish_reason: reason }] });
    event(choice({ role: 'assistant', content: '' }));
    for (const [i, token] of tokens.entries()) {
      await sleep(text.includes('SLOW') ? 100 : token_ms);
      if (gone) return undefined;
      if (i === 8 && text.includes('BROKEN')) return reply.destroy();
      while (i === 8 && text.includes('ENDLESS') && !gone) await sleep(20);
      event(choice({ content: token }));
    }
    event(choice({}, finish_reason));
    if (body.stream_options?.include_usage) event({ choices: [], usage });
    return reply.end('data: [DONE]\n\n');
  }

  async function label_texts(reply, body) {
    if (body.texts.some((text) => text.includes('BUSY')) && busy_left > 0) {
      busy_left -= 1;
      return fail(reply, 429, 'the queue is full', 'queue_full', { 'retry-after': '1' });
    }
    if (body.texts.some((text) => text.includes('CONTEXT'))) {
      return fail(reply, 400, 'a text is too long for the context', 'context_length_exceeded', {}, 'texts');
    }
    state.classified += body.texts.length;
    state.classify_sizes.push(body.texts.length);
    await sleep(body.texts.some((text) => text.includes('SLOW')) ? 400 * body.texts.length : 6 * body.texts.length);
    return send_json(reply, 200, body.texts.map((text) => classify(text, labels_of(body))));
  }

  // Counters that grow at rates which rise and fall: the integral of a wave.
  const grown = (s, period, low, high) =>
    ((low + high) * s) / 2 + ((high - low) / 2) * (period / (2 * Math.PI)) * (1 - Math.cos((s * 2 * Math.PI) / period));
  const stats = () => {
    const s = (Date.now() - started) / 1000;
    const wave = (period, low, high) => low + ((high - low) * (1 + Math.sin((s * 2 * Math.PI) / period))) / 2;
    return { ready: true, start_time: started / 1000 - 4321, version: '0.1.0',
      model: { name: 'qwen1.5-0.5b-chat', dtype: 'exact', isa: 'avx512', threads: 2 },
      requests: { running, waiting: 0, total: state.completions.length + state.predicts },
      engine: { prefill_tokens: Math.round(grown(s, 9, 120, 260)), decode_tokens: Math.round(grown(s, 14, 32, 46)) },
      first_token_ms: { p50: wave(20, 180, 240), p95: wave(17, 380, 520) },
      memory: { resident_bytes: Math.round(wave(40, 1.31e9, 1.34e9)) }, cpu: { seconds: grown(s, 11, 0.9, 1.96) } };
  };

  async function answer(request, reply) {
    const path = new URL(request.url, 'http://mock').pathname;
    const route = `${request.method} ${path}`;
    const is_page = path === '/' || path.startsWith('/assets/');
    if (need_key && !is_page && !path.startsWith('/mock/') && request.headers.authorization !== `Bearer ${need_key}`) {
      return fail(reply, 401, 'an API key is needed', 'invalid_api_key');
    }
    switch (route) {
      case 'GET /v1/models': return send_json(reply, 200, { object: 'list', data: [{ id: 'mock', object: 'model' }] });
      case 'GET /stats': return send_json(reply, 200, stats());
      case 'GET /mock/state': return send_json(reply, 200, state);
      case 'POST /v1/chat/completions': return complete(reply, await read_body(request));
      case 'POST /classify': return label_texts(reply, await read_body(request));
      case 'POST /predict': {
        const body = await read_body(request);
        state.predicts += 1;
        await sleep(5 * token_ms);
        const { label, probabilities } = classify(body.text, labels_of(body));
        return send_json(reply, 200, { emotion: label, probabilities, reply: null });
      }
      default: break;
    }
    const file = normalize(join(DIST, path === '/' ? 'index.html' : path));
    if (request.method !== 'GET' || !file.startsWith(DIST) || !statSync(file, { throwIfNoEntry: false })?.isFile()) {
      return fail(reply, 404, `there is no ${path}`);
    }
    reply.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream',
      'content-security-policy': policy, 'x-content-type-options': 'nosniff' });
    return reply.end(readFileSync(file));
  }

  const server = createServer((request, reply) => {
    answer(request, reply).catch((error) => {
      if (!reply.headersSent) fail(reply, 500, String(error));
      else reply.destroy();
    });
  });
  return { server, state };
}

/** Starts it on 127.0.0.1; {address, state, close()}. */
export async function start_mock({ port = 0, ...options } = {}) {
  const { server, state } = create_mock(options);
  await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  return {
    address: `http://127.0.0.1:${server.address().port}/`,
    state,
    close: () => new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    }),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const mock = await start_mock({ port: Number(process.argv[2] ?? 8081) });
  console.log(mock.address);
}
