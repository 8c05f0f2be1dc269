// Python's values as munia's and back: texts, ids, arrays. With the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/model_bundle.h"

namespace munia::python {

using Ids = std::vector<std::int32_t>;
template <class T, int Dims>
using Array = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<Dims>, nanobind::c_contig>;

/// UTF-8 of a str; `what` names it in the TypeError. A lone surrogate is Python's own
/// UnicodeEncodeError.
std::string text_of(nanobind::handle value, const std::string& what);
/// A list of str.
std::vector<std::string> texts_of(nanobind::handle values, const std::string& what);
/// Ids from a sequence of integers or a one-dimensional integer array.
Ids ids_of(nanobind::handle value, const std::string& what);
/// A text tokenized as munia tokenizes prompts (plain_ids), or ids as they are. Not empty.
Ids prompt_of(nanobind::handle value, const engine::ModelBundle& bundle, bool special);

/// A numpy array that owns `values`; nothing is copied.
template <class T>
Array<T, 1> array_of(std::vector<T>&& values) {
  auto* const owned = new std::vector<T>(std::move(values));
  const nanobind::capsule owner(
      owned, [](void* data) noexcept { delete static_cast<std::vector<T>*>(data); });
  return {owned->data(), {owned->size()}, owner};
}
/// As [n_rows, size / n_rows].
template <class T>
Array<T, 2> matrix_of(std::vector<T>&& values, std::size_t n_rows) {
  auto* const owned = new std::vector<T>(std::move(values));
  const nanobind::capsule owner(
      owned, [](void* data) noexcept { delete static_cast<std::vector<T>*>(data); });
  return {owned->data(), {n_rows, owned->size() / n_rows}, owner};
}

}  // namespace munia::python
