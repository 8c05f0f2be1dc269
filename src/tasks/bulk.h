// Labels of very many texts: submitted ahead of the results, ordered by length within a window,
// equal texts computed once; results come back in the order of the texts. Memory is bounded by the
// options, not by the number of texts. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "tasks/classify.h"
#include "tasks/long_text.h"

namespace munia::tasks {

struct BulkOptions {
  std::size_t window = 256;                         // texts that are ordered among each other
  std::size_t cache_bytes = std::size_t{32} << 20;  // of texts whose outcome is kept for equal ones
  std::size_t pending_bytes = std::size_t{64} << 20;  // of texts added and not taken
  LongTexts long_texts = LongTexts::kError;
  engine::Priority priority = engine::Priority::kBulk;  // interactive: nobody else waits
  BeforeWait before_wait = {};
};

struct BulkOutcome {
  Classification classification;
  std::size_t n_pieces = 1;  // above 1: a long text in windows
  bool truncated = false;    // only the beginning was labelled
};

class BulkClassifier {
 public:
  /// The classifier and its engine must outlive this. Results never taken are cancelled.
  BulkClassifier(const Classifier& classifier, const BulkOptions& options)
      : classifier_(classifier), options_(options) {}
  ~BulkClassifier();
  BulkClassifier(const BulkClassifier&) = delete;
  BulkClassifier& operator=(const BulkClassifier&) = delete;

  /// False: take() comes first.
  bool has_room() const {
    return order_.size() < 2 * options_.window &&
           (order_.empty() || pending_bytes_ < options_.pending_bytes);
  }
  void add(std::string text);
  bool empty() const { return order_.empty(); }
  /// The outcome of the oldest text that was not taken; waits for it. Errors: of that text alone
  /// (kInvalidData, kLimit: empty, too long), or of the engine.
  Result<BulkOutcome> take();
  /// Texts that were equal to an earlier one.
  std::int64_t n_repeated() const { return n_repeated_; }

 private:
  struct Item;
  struct Piece {
    std::shared_ptr<Item> item;
    std::string_view text;                   // in the item's, or all of it
    std::shared_ptr<engine::Ticket> ticket;  // once it is being computed
  };
  void close_window();
  void submit_some();
  void start(const std::shared_ptr<Item>& item);
  void split(const std::shared_ptr<Item>& item);
  void submit_piece();
  void land_first();
  void remember(const std::shared_ptr<Item>& item);

  const Classifier& classifier_;
  BulkOptions options_;
  std::deque<std::shared_ptr<Item>> order_;    // not taken yet, as they came
  std::vector<std::shared_ptr<Item>> window_;  // not ordered yet
  std::deque<std::shared_ptr<Item>> queued_;   // ordered, not submitted
  std::deque<Piece> pieces_;                   // of a long text, not submitted
  std::deque<Piece> in_flight_;
  std::unordered_map<std::string_view, std::shared_ptr<Item>> cache_;  // keys stand in the items
  std::deque<std::shared_ptr<Item>> cache_order_;                      // oldest first
  std::size_t cached_bytes_ = 0;
  std::size_t pending_bytes_ = 0;
  std::int64_t n_repeated_ = 0;
};

}  // namespace munia::tasks
