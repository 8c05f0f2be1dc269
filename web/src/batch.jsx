// The batch: texts or a table in, labels out. What is done stays when it is stopped, and goes on.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { classify } from './api.js';
import { count_labels, result_table, run_batch, split_labels } from './batch_run.js';
import { BatchResults, LabelChart } from './batch_results.jsx';
import { decode_text, guess_column, MAX_FILE_BYTES, parse_csv, parse_lines, write_csv } from './csv.js';
import { describe_error, format_duration, use_t } from './i18n.js';
import { Icon, IconButton } from './icons.jsx';

const is_table = (name) => /\.(csv|tsv|tab)$/i.test(name);

/** {name, records} of a file: its rows for a table, a row a line for other text. */
async function read_file(file) {
  const text = decode_text(new Uint8Array(await file.arrayBuffer()));
  if (/\.(tsv|tab)$/i.test(file.name)) return { name: file.name, records: parse_csv(text, '\t') };
  if (is_table(file.name)) return { name: file.name, records: parse_csv(text) };
  return { name: file.name, records: parse_lines(text).map((line) => [line]) };
}

const holds_files = (event) => event.dataTransfer.types.includes('Files');

function save_file(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: 'text/csv;charset=utf-8' }));
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** The rows to label: {header, rows, column}. */
function make_input(t, file, pasted, has_header, column) {
  if (file === null) {
    return { header: ['text'], rows: parse_lines(pasted).map((line) => [line]), column: 0 };
  }
  const width = file.records.reduce((most, row) => Math.max(most, row.length), 0);
  const first = file.records[0];
  const header = Array.from({ length: width }, (_, c) =>
    (has_header && first[c]?.trim()) || t('batch_column_n', { n: c + 1 }));
  return { header, rows: has_header ? file.records.slice(1) : file.records, column };
}

function Progress({ run, n }) {
  const t = use_t();
  const { done, started, done_before, waiting_s } = run;
  const seconds = (performance.now() - started) / 1000;
  const rate = (done - done_before) / seconds;
  const parts = [t('batch_progress', { done, n })];
  if (waiting_s !== null) parts.push(t('batch_waiting', { s: waiting_s }));
  else if (done > done_before && seconds > 1) {
    parts.push(t('batch_rate', { n: rate.toFixed(rate < 10 ? 1 : 0) }));
    parts.push(t('batch_left', { time: format_duration(t.lang, (n - done) / rate) }));
  }
  return (
    <div class="progress">
      <progress max={n} value={done} aria-label={t('batch_progress', { done, n })} />
      <span class="number">{parts.join(' · ')}</span>
    </div>
  );
}

export function Batch() {
  const t = use_t();
  const [pasted, set_pasted] = useState('');
  const [file, set_file] = useState(null);
  const [has_header, set_has_header] = useState(true);
  const [column, set_column] = useState(0);
  const [task, set_task] = useState('');
  const [own, set_own] = useState('');
  const [dragging, set_dragging] = useState(false);
  const [problem, set_problem] = useState(null); // a function of t
  const [job, set_job] = useState(null); // {header, rows, texts, results, what, state, …}
  const controller = useRef(null);
  const chooser = useRef(null);
  const run_button = useRef(null);

  const input = useMemo(() => make_input(t, file, pasted, has_header, column),
    [file, pasted, has_header, column, t.lang]);
  const n_texts = useMemo(() =>
    input.rows.reduce((n, row) => n + ((row[input.column] ?? '').trim() !== ''), 0), [input]);
  const is_running = job?.state === 'running';

  useEffect(() => () => controller.current?.abort(), []);
  useEffect(() => {
    if (!is_running) {
      // Stop is gone: the keyboard goes on from where it was.
      if (job && document.activeElement === document.body) run_button.current?.focus();
      return undefined;
    }
    const leave = (event) => event.preventDefault();
    addEventListener('beforeunload', leave);
    return () => removeEventListener('beforeunload', leave);
  }, [is_running]);

  const take_file = async (chosen) => {
    if (!chosen || is_running) return;
    set_problem(null);
    if (chosen.size > MAX_FILE_BYTES) {
      const size = Math.ceil(chosen.size / 2 ** 20);
      set_problem(() => (tt) => tt('batch_too_large', { size, max: MAX_FILE_BYTES / 2 ** 20 }));
      return;
    }
    try {
      const read = await read_file(chosen);
      if (read.records.length === 0) {
        set_problem(() => (tt) => tt('batch_no_rows', { name: chosen.name }));
        return;
      }
      const header = is_table(chosen.name) && read.records.length > 1;
      set_file(read);
      set_has_header(header);
      set_column(guess_column(read.records[0], read.records.slice(1)));
      set_job(null);
    } catch {
      set_problem(() => (tt) => tt('batch_unreadable', { name: chosen.name }));
    }
  };

  const start = async (again) => {
    let what = {};
    if (task === 'own') {
      what = { labels: split_labels(own) };
      if (what.labels.length < 2) {
        set_problem(() => (tt) => tt('batch_need_labels'));
        return;
      }
    } else if (task !== '') what = { task };
    set_problem(null);
    const next = again ? job : {
      header: input.header, rows: input.rows, column: input.column, what, name: file?.name ?? '', n: n_texts,
      texts: input.rows.map((row) => row[input.column] ?? ''), results: new Array(input.rows.length),
    };
    const count = () => next.results.reduce((n, result) => n + (result ? 1 : 0), 0);
    const done_before = count();
    const state = { ...next, state: 'running', done: done_before, done_before, started: performance.now(), waiting_s: null };
    set_job(state);
    controller.current = new AbortController();
    const { signal } = controller.current;
    let end = 'done';
    try {
      await run_batch({
        texts: next.texts,
        results: next.results,
        classify: (texts, s) => classify(texts, next.what, s),
        on_progress: ({ waiting_s }) => set_job((old) => ({ ...old, done: count(), waiting_s })),
        signal,
      });
    } catch (error) {
      end = 'stopped';
      if (error?.name !== 'AbortError') set_problem(() => (tt) => describe_error(tt, error));
    }
    set_job((old) => ({ ...old, state: end, done: count(), waiting_s: null }));
  };

  const download = () => {
    const table = result_table(job.header, job.rows, job.results);
    save_file(`${job.name.replace(/\.\w+$/, '') || 'munia'}-labels.csv`, write_csv(table));
  };
  const on_drop = (event) => {
    if (!holds_files(event)) return; // text goes into the field
    event.preventDefault();
    set_dragging(false);
    take_file(event.dataTransfer.files[0]);
  };
  const n_rejected = job ? job.results.reduce((n, result) => n + (result?.error ? 1 : 0), 0) : 0;

  return (
    <div class="page batch">
      <h2>{t('batch_title')}</h2>
      <form class={`card input ${dragging ? 'dragging' : ''}`}
        onSubmit={(event) => { event.preventDefault(); if (!is_running && n_texts > 0) start(false); }}
        onDragOver={(event) => { if (holds_files(event)) { event.preventDefault(); set_dragging(true); } }}
        onDragLeave={(event) => { if (!event.currentTarget.contains(event.relatedTarget)) set_dragging(false); }}
        onDrop={on_drop}>
        {file === null ? (
          <div class="field">
            <label for="batch-texts">{t('batch_paste')}</label>
            <textarea id="batch-texts" rows="6" value={pasted} disabled={is_running}
              placeholder={t('batch_paste_placeholder')} onInput={(event) => set_pasted(event.currentTarget.value)} />
          </div>
        ) : (
          <div class="file">
            <Icon name="file" />
            <strong>{t('batch_file', { name: file.name, n: input.rows.length })}</strong>
            <IconButton icon="close" label={t('batch_remove_file')} disabled={is_running} onClick={() => set_file(null)} />
          </div>
        )}
        <div class="field-line">
          <button type="button" disabled={is_running} onClick={() => chooser.current.click()}>
            <Icon name="file" />{t('batch_choose')}
          </button>
          <input ref={chooser} class="off-screen" type="file" accept=".csv,.tsv,.tab,.txt,text/csv,text/plain"
            tabIndex={-1} aria-label={t('batch_choose')} onChange={(event) => {
              take_file(event.currentTarget.files[0]);
              event.currentTarget.value = '';
            }} />
          <span class="hint">{t('batch_formats')}</span>
        </div>
        <div class="field-row">
          {file !== null && (
            <div class="field">
              <label for="batch-column">{t('batch_column')}</label>
              <select id="batch-column" value={String(column)} disabled={is_running}
                onChange={(event) => set_column(Number(event.currentTarget.value))}>
                {input.header.map((name, c) => <option key={c} value={String(c)}>{name}</option>)}
              </select>
              <label class="check">
                <input type="checkbox" checked={has_header} disabled={is_running}
                  onChange={(event) => set_has_header(event.currentTarget.checked)} />
                <span>{t('batch_has_header')}</span>
              </label>
            </div>
          )}
          <div class="field">
            <label for="batch-task">{t('batch_task')}</label>
            <select id="batch-task" value={task} disabled={is_running}
              onChange={(event) => set_task(event.currentTarget.value)}>
              <option value="">{t('batch_task_default')}</option>
              <option value="sentiment">{t('batch_task_sentiment')}</option>
              <option value="sentiment-3">{t('batch_task_sentiment_3')}</option>
              <option value="own">{t('batch_task_own')}</option>
            </select>
          </div>
          {task === 'own' && (
            <div class="field">
              <label for="batch-own">{t('batch_own_labels')}</label>
              <input id="batch-own" value={own} disabled={is_running} placeholder={t('batch_own_placeholder')}
                onInput={(event) => set_own(event.currentTarget.value)} />
            </div>
          )}
        </div>
        {problem && <p class="error" role="alert"><Icon name="warn" /><span>{problem(t)}</span></p>}
        <div class="field-line">
          {is_running ? (
            <button key="stop" type="button" class="primary" onClick={() => controller.current.abort()}>
              <Icon name="stop" />{t('stop')}
            </button>
          ) : (
            <button key="run" ref={run_button} type="submit" class="primary" disabled={n_texts === 0}>
              {n_texts === 0 ? t('batch_run_0') : t('batch_run', { n: n_texts })}
            </button>
          )}
          {job?.state === 'stopped' && <button type="button" onClick={() => start(true)}>{t('batch_continue')}</button>}
          {is_running && <Progress run={job} n={job.n} />}
          <span role="status" class="number">
            {job?.state === 'done' && t('batch_finished', { n: job.done - n_rejected })}
            {job?.state === 'stopped' && t('batch_stopped', { done: job.done, n: job.n })}
            {job && !is_running && n_rejected > 0 && ` ${t('batch_rejected', { n: n_rejected })}`}
          </span>
        </div>
      </form>
      {job ? (
        <>
          <LabelChart counts={count_labels(job.results)} />
          <BatchResults job={job} on_download={download} />
        </>
      ) : <p class="hint centred">{t('batch_empty')}</p>}
    </div>
  );
}
