// The tables of filters, by file. find_filter (template_eval.h) looks in both.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "text/template_eval.h"

namespace munia::text::tmpl {

using FilterEntry = std::pair<std::string_view, FilterFn>;

std::span<const FilterEntry> sequence_filters();

}  // namespace munia::text::tmpl
