// What a batch found: a bar for each label, and the rows, a page at a time.
import { useEffect, useState } from 'preact/hooks';
import { count_labels } from './batch_run.js';
import { label_emoji, label_kind, percent } from './emotion.js';
import { use_t } from './i18n.js';
import { IconButton } from './icons.jsx';

const ROWS_SHOWN = 50;

export function LabelChart({ counts }) {
  const t = use_t();
  if (counts.length === 0) return null;
  const total = counts.reduce((sum, [, n]) => sum + n, 0);
  const most = counts[0][1];
  return (
    <section class="card chart-card" aria-labelledby="label-chart">
      <h3 id="label-chart">{t('batch_chart')}</h3>
      <ul class="bars">
        {counts.map(([label, n]) => (
          <li key={label} class={`kind-${label_kind(label)}`}>
            <span class="bar-label"><span class="emoji" aria-hidden="true">{label_emoji(label)}</span> {label}</span>
            <span class="track" aria-hidden="true"><span class="bar" style={{ width: `${(n / most) * 100}%` }} /></span>
            <span class="number">{n} · {percent(n / total)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

export function BatchResults({ job, on_download }) {
  const t = use_t();
  const [filter, set_filter] = useState('');
  const [page, set_page] = useState(0);
  useEffect(() => { set_filter(''); set_page(0); }, [job.texts]);

  const rows = [];
  job.results.forEach((result, i) => {
    if (result && (filter === '' || result.label === filter)) rows.push(i);
  });
  const last = Math.max(0, Math.ceil(rows.length / ROWS_SHOWN) - 1);
  const at = Math.min(page, last);
  const shown = rows.slice(at * ROWS_SHOWN, (at + 1) * ROWS_SHOWN);
  return (
    <section class="card" aria-labelledby="batch-results">
      <div class="card-head">
        <h3 id="batch-results">{t('batch_results')}</h3>
        <label class="inline">{t('batch_filter')}
          <select value={filter} onChange={(event) => { set_filter(event.currentTarget.value); set_page(0); }}>
            <option value="">{t('batch_all')}</option>
            {count_labels(job.results).map(([label, n]) => <option key={label} value={label}>{label} ({n})</option>)}
          </select>
        </label>
        <button type="button" disabled={job.state === 'running' || rows.length === 0} onClick={on_download}>
          {t('batch_download')}
        </button>
      </div>
      <div class="table-box" tabIndex={0} role="region" aria-labelledby="batch-results">
        <table>
          <thead>
            <tr>
              <th scope="col" class="right">{t('batch_row')}</th>
              <th scope="col">{t('batch_text')}</th>
              <th scope="col">{t('batch_label')}</th>
              <th scope="col" class="right">{t('batch_confidence')}</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((i) => {
              const result = job.results[i];
              return (
                <tr key={i}>
                  <td class="right number">{i + 1}</td>
                  <td class="text">{job.texts[i]}</td>
                  {result.error ? <td colSpan={2} class="refused">{result.error}</td> : (
                    <>
                      <td class="label">{result.label !== null && (
                        <><span class="emoji" aria-hidden="true">{label_emoji(result.label)}</span> {result.label}</>
                      )}</td>
                      <td class="right number">{percent(result.confidence)}</td>
                    </>
                  )}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {rows.length > ROWS_SHOWN && (
        <div class="pager">
          <IconButton icon="previous" label={t('batch_previous')} disabled={at === 0} onClick={() => set_page(at - 1)} />
          <span class="number">{t('batch_page', {
            from: at * ROWS_SHOWN + 1, to: at * ROWS_SHOWN + shown.length, n: rows.length,
          })}</span>
          <IconButton icon="next" label={t('batch_next')} disabled={at === last} onClick={() => set_page(at + 1)} />
        </div>
      )}
    </section>
  );
}
