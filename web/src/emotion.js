// How a label is shown: its emoji, its colour, and what it means in the reader's language.

const KINDS = {
  positive: { emoji: '😄', labels: ['正面', '积极', '正向', 'positive', 'pos'] },
  neutral: { emoji: '😐', labels: ['中性', '中立', '无', 'neutral', 'neu'] },
  negative: { emoji: '😞', labels: ['负面', '消极', '负向', 'negative', 'neg'] },
  joy: { emoji: '😊', labels: ['开心', '快乐', '喜悦', '高兴', 'joy', 'happy', 'happiness'] },
  sadness: { emoji: '😢', labels: ['悲伤', '难过', '伤心', 'sad', 'sadness'] },
  anger: { emoji: '😠', labels: ['愤怒', '生气', 'angry', 'anger'] },
  fear: { emoji: '😨', labels: ['恐惧', '害怕', 'fear', 'scared'] },
  surprise: { emoji: '😮', labels: ['惊讶', '惊奇', 'surprise', 'surprised'] },
  disgust: { emoji: '🤢', labels: ['厌恶', 'disgust'] },
  love: { emoji: '🥰', labels: ['喜爱', '爱', 'love'] },
};

/** The kind of a label, or 'other'. */
export function label_kind(label) {
  const name = String(label).trim().toLowerCase();
  for (const [kind, { labels }] of Object.entries(KINDS)) {
    if (labels.includes(name)) return kind;
  }
  return 'other';
}

export function label_emoji(label) {
  return KINDS[label_kind(label)]?.emoji ?? '🏷️';
}

/** Labels with probabilities, the most likely first: [["正面", 0.98], …]. */
export function ranked(probabilities) {
  return Object.entries(probabilities ?? {}).sort((a, b) => b[1] - a[1]);
}

/** "98%", "0.4%", "<0.1%": a rare label never looks impossible, nor a likely one certain. */
export function percent(p) {
  if (!Number.isFinite(p)) return '–';
  if (p > 0 && p < 0.001) return '<0.1%';
  if (p < 1 && p > 0.999) return '>99.9%';
  return `${(p * 100).toFixed(p < 0.0995 || p > 0.9905 ? 1 : 0).replace(/\.0$/, '')}%`;
}
