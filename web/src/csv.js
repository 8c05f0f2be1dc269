// Tables of text: reading bytes in the encodings that spreadsheets write, RFC 4180 in and out.

export const MAX_FILE_BYTES = 64 * 1024 * 1024;

/** Text of a file's bytes: by its byte order mark, else UTF-8, else GB18030. */
export function decode_text(bytes) {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return new TextDecoder('utf-16le').decode(bytes);
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return new TextDecoder('utf-16be').decode(bytes);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder('gb18030').decode(bytes);
  }
}

/** Comma, tab or semicolon: the one that the first record has most of, outside quotes. */
export function guess_delimiter(text) {
  const counts = { ',': 0, '\t': 0, ';': 0 };
  let quoted = false;
  for (const c of text) {
    if (c === '"') quoted = !quoted;
    else if (!quoted && c === '\n') break;
    else if (!quoted && c in counts) counts[c] += 1;
  }
  return Object.keys(counts).reduce((best, c) => (counts[c] > counts[best] ? c : best), ',');
}

/** Records of RFC 4180 text; LF, CRLF and CR end a record, empty lines are left out. */
export function parse_csv(text, delimiter = guess_delimiter(text)) {
  const rows = [];
  const n = text.length;
  let row = [];
  let i = text.charCodeAt(0) === 0xfeff ? 1 : 0;
  const end_row = () => {
    if (row.length > 1 || row[0] !== '') rows.push(row);
    row = [];
  };
  while (i < n) {
    let field = '';
    if (text[i] === '"') {
      // To the closing quote; "" is a quote. A quote that is never closed ends with the file.
      for (i += 1; i < n; i += 1) {
        const close = text.indexOf('"', i);
        if (close < 0) {
          field += text.slice(i);
          i = n;
          break;
        }
        field += text.slice(i, close);
        i = close + 1;
        if (text[i] !== '"') break;
        field += '"';
      }
    }
    let end = i;
    while (end < n && text[end] !== delimiter && text[end] !== '\n' && text[end] !== '\r') end += 1;
    row.push(field + text.slice(i, end));
    i = end;
    if (i >= n) break;
    if (text[i] === delimiter) {
      i += 1;
      if (i >= n) row.push('');
      continue;
    }
    i += text[i] === '\r' && text[i + 1] === '\n' ? 2 : 1;
    end_row();
  }
  if (row.length > 0) end_row();
  return rows;
}

/** Lines of a text, a text each; empty ones are left out. */
export function parse_lines(text) {
  return text.replace(/^\ufeff/, '').split(/\r\n|\n|\r/).filter((line) => line.trim() !== '');
}

/** One cell: quoted where needed, and no formula for a spreadsheet to run (OWASP, CSV injection). */
export function write_cell(value) {
  let text = value === null || value === undefined ? '' : String(value);
  const is_number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text);
  if (/^\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/.test(text) && !is_number) text = `'${text}`;
  return /[",\r\n;\t]/.test(text) || text !== text.trim() ? `"${text.replace(/"/g, '""')}"` : text;
}

/** A whole file, with the mark by which Excel sees that it is UTF-8. */
export function write_csv(rows) {
  return `\ufeff${rows.map((row) => row.map(write_cell).join(',')).join('\r\n')}\r\n`;
}

/** The column that most likely holds the texts: by its name, else the longest on average. */
export function guess_column(header, rows) {
  const names = /^(text|texts|review|content|comment|sentence|message|文本|内容|评论|评价|正文|句子|微博)$/i;
  const named = header.findIndex((name) => names.test(name.trim()));
  if (named >= 0) return named;
  const sample = rows.slice(0, 50);
  const lengths = header.map((_, c) =>
    sample.reduce((sum, row) => sum + (/^[\d.\-/: ]*$/.test(row[c] ?? '') ? 0 : row[c].length), 0));
  return lengths.indexOf(Math.max(...lengths, 0));
}
