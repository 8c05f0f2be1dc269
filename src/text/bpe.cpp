#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "base/utf8.h"

namespace munia::text {
namespace {

constexpr TokenId kNoToken = -1;
constexpr std::uint32_t kNoRank = ~std::uint32_t{0};
// Above this many symbols the heap is faster than scanning for the lowest rank.
constexpr std::size_t kMaxScanSymbols = 96;

// GPT-2's alphabet: printable Latin-1 bytes are their own character, the others follow from U+0100.
struct Alphabet {
  std::array<char32_t, 256> char_of_byte{};
  std::array<std::int16_t, 0x200> byte_of_char{};

  Alphabet() {
    byte_of_char.fill(-1);
    char32_t next = 0x100;
    for (std::size_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      char_of_byte[b] = printable ? static_cast<char32_t>(b) : next++;
      byte_of_char[char_of_byte[b]] = static_cast<std::int16_t>(b);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

// Appends the bytes of `text` to `out`; false (and nothing appended) outside the alphabet.
bool append_token_bytes(std::string_view text, std::string& out) {
  const Alphabet& letters = alphabet();
  const std::size_t size_before = out.size();
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    char32_t c = lead;
    std::size_t length = 1;
    if (lead >= 0xC0 && lead < 0xE0 && i + 1 < text.size()) {
      const auto second = static_cast<unsigned char>(text[i + 1]);
      c = static_cast<char32_t>((lead & 0x1F) << 6 | (second & 0x3F));
      length = (second & 0xC0) == 0x80 ? 2 : 0;
    } else if (lead >= 0x80) {
      length = 0;
    }
    const int byte = length == 0 || c >= letters.byte_of_char.size() ? -1 : letters.byte_of_char[c];
    if (byte < 0) {
      out.resize(size_before);
      return false;
    }
    out.push_back(static_cast<char>(byte));
    i += length;
  }
  return true;
}

std::size_t hash_bytes(std::string_view bytes) {
  std::uint64_t h = bytes.size() * 0x9E3779B97F4A7C15u;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::char_traits<char>::copy(reinterpret_cast<char*>(&word), bytes.data() + i, 8);
    h = std::rotl(h ^ word, 23) * 0xFF51AFD7ED558CCDu;
  }
  std::uint64_t rest = 0;
  for (; i < bytes.size(); ++i) rest = rest << 8 | static_cast<unsigned char>(bytes[i]);
  h = std::rotl(h ^ rest, 23) * 0xFF51AFD7ED558CCDu;
  return static_cast<std::size_t>(h ^ h >> 32);
}

std::uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

}  // namespace

std::optional<std::string> bytes_of_token_text(std::string_view text) {
  std::string bytes;
  if (!append_token_bytes(text, bytes)) return std::nullopt;
  return bytes;
}

FlatMap::FlatMap(std::size_t n_keys)
    : slots_(std::bit_ceil(n_keys + n_keys / 2 + 2)), mask_(slots_.size() - 1) {}

void FlatMap::set(std::uint64_t key, Value value) {
  std::size_t slot = slot_of(key);
  while (slots_[slot].key != kEmptyKey && slots_[slot].key != key) slot = (slot + 1) & mask_;
  slots_[slot] = {key, value};
}

TokenTable::TokenTable(std::size_t n_ids, std::size_t n_tokens, std::size_t n_bytes)
    : spans_(n_ids), present_(n_ids), slots_(std::bit_ceil(2 * n_tokens + 2), kNoToken) {
  arena_.reserve(n_bytes);
}

std::string_view TokenTable::store(TokenId id, std::string_view text, bool& in_alphabet) {
  const std::size_t begin = arena_.size();
  in_alphabet = append_token_bytes(text, arena_);
  if (!in_alphabet) arena_.append(text);
  const std::size_t size = arena_.size() - begin;
  spans_[id] = {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(size)};
  present_[id] = true;
  return {arena_.data() + begin, size};
}

bool TokenTable::add(TokenId id, std::string_view text) {
  if (present_[id]) return false;
  bool in_alphabet = false;
  store(id, text, in_alphabet);
  if (!in_alphabet) {
    other_[std::string(text)] = id;
    return true;
  }
  list_bytes(id);
  return true;
}

// Of two tokens with the same text the later one is found, as in a Python dict.
void TokenTable::list_bytes(TokenId id) {
  const std::string_view bytes = this->bytes(id);
  std::size_t slot = hash_bytes(bytes) & (slots_.size() - 1);
  while (slots_[slot] != kNoToken && this->bytes(slots_[slot]) != bytes) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  slots_[slot] = id;
}

TokenTable::Kind TokenTable::kind(TokenId id) const {
  if (!present_[id]) return Kind::kAbsent;
  if (find_bytes(bytes(id)) == id) return Kind::kBytes;
  const auto other = other_.find(std::string(bytes(id)));
  return other != other_.end() && other->second == id ? Kind::kText : Kind::kUnlisted;
}

bool TokenTable::add(TokenId id, Kind kind, std::string_view bytes) {
  if (kind == Kind::kAbsent) return true;
  if (present_[id]) return false;
  spans_[id] = {static_cast<std::uint32_t>(arena_.size()),
                static_cast<std::uint32_t>(bytes.size())};
  arena_.append(bytes);
  present_[id] = true;
  if (kind == Kind::kBytes) list_bytes(id);
  if (kind == Kind::kText) other_[std::string(bytes)] = id;
  return true;
}

void TokenTable::add_unlisted(TokenId id, std::string_view text) {
  bool in_alphabet = false;
  if (!present_[id]) store(id, text, in_alphabet);
}

std::string_view TokenTable::bytes(TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= spans_.size()) return {};
  return {arena_.data() + spans_[id].begin, spans_[id].size};
}

std::optional<TokenId> TokenTable::find_bytes(std::string_view bytes) const {
  if (slots_.empty()) return std::nullopt;
  std::size_t slot = hash_bytes(bytes) & (slots_.size() - 1);
  while (slots_[slot] != kNoToken) {
    if (this->bytes(slots_[slot]) == bytes) return slots_[slot];
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return std::nullopt;
}

std::optional<TokenId> TokenTable::find_text(std::string_view text) const {
  std::string bytes;
  if (append_token_bytes(text, bytes)) return find_bytes(bytes);
  const auto it = other_.find(std::string(text));
  return it == other_.end() ? std::nullopt : std::optional<TokenId>(it->second);
}

Bpe::Bpe(TokenTable tokens, std::size_t n_merges, Options options)
    : tokens_(std::move(tokens)),
      merges_(n_merges),
      options_(options),
      forbidden_(tokens_.n_ids()) {}

Status Bpe::add_merge(std::string_view left, std::string_view right) {
  const auto quoted = [&] {
    return "merge " + std::to_string(n_merges_) + " (\"" + std::string(left.substr(0, 60)) +
           "\" \"" + std::string(right.substr(0, 60)) + "\")";
  };
  const auto left_id = tokens_.find_text(left);
  const auto right_id = tokens_.find_text(right);
  if (!left_id || !right_id) {
    return Error{ErrorCode::kInvalidData,
                 quoted() +
                     " joins a part that is not in the vocabulary; the tokenizer's files "
                     "do not belong together"};
  }
  std::string joined(left);
  joined += right;
  const auto id = tokens_.find_text(joined);
  if (!id) {
    return Error{ErrorCode::kInvalidData,
                 quoted() +
                     " gives a token that is not in the vocabulary; the tokenizer's files "
                     "do not belong together"};
  }
  if (!forbidden_[*id]) merges_.set(pair_key(*left_id, *right_id), {n_merges_, *id});
  ++n_merges_;
  return {};
}

void Bpe::add_merge(TokenId left, TokenId right, TokenId joined) {
  merges_.set(pair_key(left, right), {n_merges_, joined});
  ++n_merges_;
}

std::vector<Bpe::Merge> Bpe::merges() const {
  struct Ranked {
    std::uint32_t rank;
    Merge merge;
  };
  std::vector<Ranked> ranked;
  merges_.for_each([&](std::uint64_t key, const FlatMap::Value& value) {
    ranked.push_back(
        {value.rank,
         {static_cast<TokenId>(key >> 32), static_cast<TokenId>(key & 0xFFFFFFFFU), value.id}});
  });
  std::sort(ranked.begin(), ranked.end(),
            [](const Ranked& a, const Ranked& b) { return a.rank < b.rank; });
  std::vector<Merge> merges;
  merges.reserve(ranked.size());
  for (const Ranked& entry : ranked) merges.push_back(entry.merge);
  return merges;
}

void Bpe::finish() {
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    byte_ids_[b] = tokens_.find_bytes({&byte, 1}).value_or(kNoToken);
  }
  is_whole_ = std::make_unique<std::atomic<std::uint8_t>[]>(tokens_.n_ids());
}

const FlatMap::Value* Bpe::find_merge(TokenId left, TokenId right) const {
  return merges_.find(pair_key(left, right));
}

void Bpe::split_to_symbols(std::string_view piece, std::vector<TokenId>& symbols) const {
  symbols.clear();
  bool after_unknown = false;
  for (const char c : piece) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(c)];
    if (id != kNoToken) {
      symbols.push_back(id);
    } else if (options_.unknown && !(options_.fuse_unknown && after_unknown)) {
      symbols.push_back(*options_.unknown);
    }
    after_unknown = id == kNoToken;
  }
}

void Bpe::merge_by_scan(Scratch& s) const {
  auto& symbols = s.symbols;
  auto& pairs = s.pairs;  // pairs[i] is the merge of symbols i and i+1
  const auto look_up = [&](std::size_t i) {
    const auto* merge = find_merge(symbols[i], symbols[i + 1]);
    return merge != nullptr ? *merge : FlatMap::Value{kNoRank, kNoToken};
  };
  pairs.resize(symbols.size() - 1);
  for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = look_up(i);
  while (!pairs.empty()) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < pairs.size(); ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == kNoRank) break;
    symbols[best] = pairs[best].id;
    symbols.erase(symbols.begin() + best + 1);
    pairs.erase(pairs.begin() + best);
    if (best > 0) pairs[best - 1] = look_up(best - 1);
    if (best < pairs.size()) pairs[best] = look_up(best);
  }
}

void Bpe::merge_by_heap(Scratch& s) const {
  // Lowest rank first, then leftmost.
  const auto after = [](const Scratch::Candidate& a, const Scratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.pos > b.pos;
  };
  const auto n = static_cast<std::int32_t>(s.symbols.size());
  s.nodes.clear();
  s.heap.clear();
  for (std::int32_t i = 0; i < n; ++i) {
    s.nodes.push_back({s.symbols[i], i - 1, i + 1 < n ? i + 1 : -1});
  }
  const auto candidate = [&](std::int32_t pos) -> std::optional<Scratch::Candidate> {
    const std::int32_t next = s.nodes[pos].next;
    if (next < 0) return std::nullopt;
    const auto* merge = find_merge(s.nodes[pos].id, s.nodes[next].id);
    if (merge == nullptr) return std::nullopt;
    return Scratch::Candidate{merge->rank, pos, s.nodes[pos].id, s.nodes[next].id};
  };
  const auto queue = [&](std::int32_t pos) {
    if (const auto c = candidate(pos)) {
      s.heap.push_back(*c);
      std::push_heap(s.heap.begin(), s.heap.end(), after);
    }
  };
  for (std::int32_t i = 0; i < n; ++i) {
    if (const auto c = candidate(i)) s.heap.push_back(*c);
  }
  std::make_heap(s.heap.begin(), s.heap.end(), after);
  while (!s.heap.empty()) {
    std::pop_heap(s.heap.begin(), s.heap.end(), after);
    const Scratch::Candidate top = s.heap.back();
    s.heap.pop_back();
    Scratch::Node& node = s.nodes[top.pos];
    if (node.id != top.left || node.next < 0 || s.nodes[node.next].id != top.right) continue;
    Scratch::Node& right = s.nodes[node.next];
    node.id = find_merge(top.left, top.right)->id;
    node.next = right.next;
    right.id = kNoToken;  // so that what was queued for it is passed over
    if (node.next >= 0) s.nodes[node.next].prev = top.pos;
    if (node.prev >= 0) queue(node.prev);
    queue(top.pos);
  }
  s.symbols.clear();
  for (std::int32_t i = n > 0 ? 0 : -1; i >= 0; i = s.nodes[i].next) {
    s.symbols.push_back(s.nodes[i].id);
  }
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& ids) const {
  std::optional<TokenId> whole = tokens_.find_bytes(piece);
  if (whole && forbidden_[*whole]) whole.reset();
  if (whole && (options_.ignore_merges || is_whole_[*whole].load(std::memory_order_relaxed) == 1)) {
    ids.push_back(*whole);
    return;
  }
  split_to_symbols(piece, scratch.symbols);
  if (scratch.symbols.size() > kMaxScanSymbols) {
    merge_by_heap(scratch);
  } else if (scratch.symbols.size() > 1) {
    merge_by_scan(scratch);
  }
  if (whole) {
    const bool same = scratch.symbols.size() == 1 && scratch.symbols[0] == *whole;
    is_whole_[*whole].store(same ? 1 : 2, std::memory_order_relaxed);
  }
  ids.insert(ids.end(), scratch.symbols.begin(), scratch.symbols.end());
}

}  // namespace munia::text
