#include "grammar/schema_object.h"

#include <algorithm>

#include "base/utf8.h"

namespace munia::grammar {
namespace {

using Names = std::vector<std::u32string>;

/// A key in its quotes that is none of `names`. Written without escapes, so that it cannot be one
/// of them in other letters.
class OtherKey {
 public:
  OtherKey(Builder& builder, const ObjectShape& shape, NodeId to) : builder_(builder), to_(to) {
    for (const Property& property : shape.properties) {
      std::u32string name;
      for (std::size_t at = 0; at < property.name.size();) {
        const Utf8Char c = decode_utf8(property.name, at);
        name += c.code_point;
        at += static_cast<std::size_t>(c.length);
      }
      names_.push_back(std::move(name));
    }
    std::sort(names_.begin(), names_.end());
    letters_ = escaped_in_json().complement();
  }

  void lay(NodeId from) {
    free_ = builder_.node_beside(from);
    add_character(builder_, free_, letters_, Writing::kPlain, free_);
    builder_.literal(free_, "\"", to_);
    const NodeId inside = builder_.node_beside(from);
    builder_.literal(from, "\"", inside);
    lay_names(inside, 0, names_.size());
  }

 private:
  // names_[begin, end) share what has been read to `at`. Walks the trie of names with a stack, as
  // a name may be long.
  void lay_names(NodeId at, std::size_t begin, std::size_t end) {
    struct Place {
      NodeId at;
      std::size_t begin, end, depth;
    };
    std::vector<Place> places{{at, begin, end, 0}};
    while (!places.empty() && !builder_.is_full()) {
      const Place place = places.back();
      places.pop_back();
      std::size_t first = place.begin;
      bool is_name = false;
      while (first < place.end && names_[first].size() == place.depth) {
        is_name = true;
        ++first;
      }
      if (!is_name) builder_.literal(place.at, "\"", to_);
      CodePoints known;
      while (first < place.end) {
        const char32_t letter = names_[first][place.depth];
        std::size_t last = first;
        while (last < place.end && names_[last][place.depth] == letter) ++last;
        const CodePoints one = CodePoints::one(letter);
        known.add(one);
        if (letters_.has(letter)) {
          const NodeId next = builder_.node_beside(place.at);
          add_character(builder_, place.at, one, Writing::kPlain, next);
          places.push_back({next, first, last, place.depth + 1});
        }
        first = last;
      }
      add_character(builder_, place.at, letters_.without(known), Writing::kPlain, free_);
    }
  }

  Builder& builder_;
  const NodeId to_;
  Names names_;
  CodePoints letters_;
  NodeId free_ = 0;  // what is read is none of the names already
};

}  // namespace

void add_object(Builder& builder, JsonParts& parts, NodeId from, const ObjectShape& shape,
                NodeId to) {
  const RuleId id = builder.add_rule(true);
  const Rule rule = builder.rule(id);
  const auto node = [&] { return builder.node_beside(rule.start); };
  const std::size_t n = shape.properties.size();
  // choose[i]: a key follows, of property i or a later one that may come.
  std::vector<NodeId> choose;
  for (std::size_t i = 0; i <= n; ++i) choose.push_back(node());
  std::size_t n_needed = n;  // none from here on is required
  while (n_needed > 0 && !shape.properties[n_needed - 1].required) --n_needed;

  const NodeId first = node();
  builder.literal(rule.start, "{", first);
  builder.jump(first, choose[0]);
  if (n_needed == 0) builder.literal(first, "}", rule.end);
  for (std::size_t i = 0; i < n; ++i) {
    const Property& property = shape.properties[i];
    const NodeId content = node();
    const NodeId behind = node();
    parts.key(choose[i], property.name, content);
    if (!property.required) builder.jump(choose[i], choose[i + 1]);
    builder.call(content, property.value, behind);
    parts.separator(behind, ',', choose[i + 1]);
    if (i + 1 >= n_needed) builder.literal(behind, "}", rule.end);
  }
  if (shape.others) {
    const NodeId colon = node();
    const NodeId content = node();
    const NodeId behind = node();
    OtherKey(builder, shape, colon).lay(choose[n]);
    parts.separator(colon, ':', content);
    builder.call(content, *shape.others, behind);
    parts.separator(behind, ',', choose[n]);
    builder.literal(behind, "}", rule.end);
  }
  builder.call(from, id, to);
}

}  // namespace munia::grammar
