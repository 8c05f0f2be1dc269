#include "tasks/bulk.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace munia::tasks {
namespace {

// More than an engine computes at once, so that it always has the next one at hand.
constexpr std::size_t kInFlight = 64;
// What an entry of the cache takes beside its text, roughly.
constexpr std::size_t kEntryBytes = 512;

}  // namespace

struct BulkClassifier::Item {
  std::string text;
  std::size_t n_left = 0;  // pieces not landed
  std::size_t summed_bytes = 0;
  bool truncated = false;
  std::optional<Result<BulkOutcome>> outcome;  // whole when n_left is 0

  bool has_failed() const { return outcome && !*outcome; }
  /// Adds a piece of `bytes` to the mean so far.
  void add(Classification part, std::size_t bytes, const Task& task) {
    if (has_failed()) return;
    if (!outcome) {
      outcome.emplace(BulkOutcome{std::move(part), 1, truncated});
      summed_bytes = bytes;
      return;
    }
    Classification& mean = (*outcome)->classification;
    const auto before = static_cast<double>(summed_bytes);
    const auto now = static_cast<double>(bytes);
    summed_bytes += bytes;
    std::vector<double> probabilities;
    for (std::size_t i = 0; i < mean.probabilities.size(); ++i) {
      double& p = mean.probabilities[i].second;
      p = (p * before + part.probabilities[i].second * now) / (before + now);
      probabilities.push_back(p);
    }
    const std::size_t best = task.calibration.choose(probabilities);
    mean.label = mean.probabilities[best].first;
    mean.emoji = task.labels[best].emoji;
    mean.confidence = mean.probabilities[best].second;
    mean.usage += part.usage;
    ++(*outcome)->n_pieces;
  }
};

BulkClassifier::~BulkClassifier() {
  for (const Piece& piece : in_flight_) piece.ticket->cancel();
  for (const Piece& piece : in_flight_) (void)piece.ticket->wait();
}

void BulkClassifier::add(std::string text) {
  pending_bytes_ += text.size();
  if (const auto known = cache_.find(text); known != cache_.end()) {
    ++n_repeated_;
    order_.push_back(known->second);
    return;
  }
  auto item = std::make_shared<Item>();
  item->text = std::move(text);
  order_.push_back(item);
  window_.push_back(item);
  remember(item);
  if (window_.size() == options_.window) close_window();
  submit_some();
}

void BulkClassifier::remember(const std::shared_ptr<Item>& item) {
  const std::size_t bytes = item->text.size() + kEntryBytes;
  if (bytes > options_.cache_bytes) return;
  while (cached_bytes_ + bytes > options_.cache_bytes) {
    cached_bytes_ -= cache_order_.front()->text.size() + kEntryBytes;
    cache_.erase(cache_order_.front()->text);
    cache_order_.pop_front();
  }
  cache_.emplace(item->text, item);
  cache_order_.push_back(item);
  cached_bytes_ += bytes;
}

// The longest first: what is left at the end of a window is short.
void BulkClassifier::close_window() {
  std::stable_sort(window_.begin(), window_.end(),
                   [](const auto& a, const auto& b) { return a->text.size() > b->text.size(); });
  queued_.insert(queued_.end(), window_.begin(), window_.end());
  window_.clear();
}

void BulkClassifier::submit_some() {
  while (in_flight_.size() < kInFlight) {
    if (!pieces_.empty()) {
      submit_piece();
    } else if (!queued_.empty()) {
      start(queued_.front());
      queued_.pop_front();
    } else {
      return;
    }
  }
}

void BulkClassifier::start(const std::shared_ptr<Item>& item) {
  auto ticket = classifier_.submit(item->text, options_.priority);
  if (ticket) {
    item->n_left = 1;
    in_flight_.push_back({item, item->text, *std::move(ticket)});
  } else if (ticket.error().code == ErrorCode::kLimit && options_.long_texts != LongTexts::kError) {
    split(item);
  } else {
    item->outcome = ticket.error();
  }
}

void BulkClassifier::split(const std::shared_ptr<Item>& item) {
  item->truncated = options_.long_texts == LongTexts::kTruncate;
  auto parts = split_to_fit(classifier_, item->text,
                            item->truncated ? 1 : std::numeric_limits<std::size_t>::max());
  if (!parts) {
    item->outcome = parts.error();
    return;
  }
  std::erase_if(*parts, is_blank);  // pieces of white space say nothing
  if (parts->empty()) {
    item->outcome = Error{ErrorCode::kInvalidData, "the text is empty as far as it fits"};
    return;
  }
  item->n_left = parts->size();
  for (const std::string_view part : *parts) pieces_.push_back({item, part, nullptr});
}

void BulkClassifier::submit_piece() {
  Piece piece = std::move(pieces_.front());
  pieces_.pop_front();
  if (piece.item->has_failed()) {
    --piece.item->n_left;
    return;
  }
  auto ticket = classifier_.submit(piece.text, options_.priority);
  if (!ticket) {
    piece.item->outcome = ticket.error();
    --piece.item->n_left;
    return;
  }
  piece.ticket = *std::move(ticket);
  in_flight_.push_back(std::move(piece));
}

void BulkClassifier::land_first() {
  const Piece piece = std::move(in_flight_.front());
  in_flight_.pop_front();
  Item& item = *piece.item;
  if (options_.before_wait) options_.before_wait(*piece.ticket);
  Result<Classification> part = classifier_.finish(*piece.ticket);
  if (part) {
    item.add(*std::move(part), piece.text.size(), classifier_.task());
  } else {
    item.outcome = part.error();
  }
  --item.n_left;
}

Result<BulkOutcome> BulkClassifier::take() {
  const std::shared_ptr<Item> item = order_.front();
  while (!item->outcome || item->n_left > 0) {
    submit_some();
    if (in_flight_.empty()) {
      close_window();
    } else {
      land_first();
    }
  }
  submit_some();
  order_.pop_front();
  pending_bytes_ -= item->text.size();
  return *item->outcome;
}

}  // namespace munia::tasks
