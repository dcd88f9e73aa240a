// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/config/ns_coefficients.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <span>

#include "core/base/text.h"

namespace shampoo {
namespace {

// The coefficients of one step X <- a X + (b A + c A A) X, with A = X X^T.
using Entry = NsCoefficients::Entry;

struct NamedSchedule {
  std::span<const Entry> entries;
  double divisor;
};

// Polar Express (arXiv 2505.16932), as in the GitHub repository microsoft/dion. X is first divided by 1.02 times
// its norm, so that its singular values stay below 1 despite rounding.
constexpr Entry kPolarExpress[] = {{8.156554524902461, -22.48329292557795, 15.878769915207462},
                                   {4.042929935166739, -2.808917465908714, 0.5000178451051316},
                                   {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
                                   {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
                                   {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}};
// The coefficients of Keller Jordan's Muon and of torch.optim.Muon.
constexpr Entry kJordan[] = {{3.4445, -4.7750, 2.0315}};
// The schedules quintic and cubic5 of the GitHub repository NVIDIA-NeMo/Emerging-Optimizers. The polynomials of cubic5
// are cubic: c is 0, so a step does not need the product A A.
constexpr Entry kQuintic[] = {{4.0848, -6.8946, 2.9270},
                              {3.9505, -6.3029, 2.6377},
                              {3.7418, -5.5913, 2.3037},
                              {2.8769, -3.1427, 1.2046},
                              {2.8366, -3.0525, 1.2012}};
constexpr Entry kCubic5[] = {{3.3656576265482845, -3.342099226362457, 0},
                             {2.574435189728087, -1.4957375704353197, 0},
                             {2.5368961954117237, -1.4312569862532498, 0},
                             {2.441890597549063, -1.2764039933850113, 0},
                             {2.223047197586433, -0.9630649968631939, 0}};
// In the order of kNsScheduleNames.
constexpr NamedSchedule kSchedules[] = {{kPolarExpress, 1.02}, {kJordan, 1}, {kQuintic, 1}, {kCubic5, 1}};
static_assert(std::size(kNsScheduleNames) == std::size(kSchedules));

// Returns the part of *text before the separator, or all of *text if there is no separator. Blanks at both ends of the
// result are removed. Removes this part and the separator from *text. Sets *has_more to whether there was a separator.
std::string_view TakeUntil(char separator, std::string_view* text, bool* has_more) {
  const size_t at = text->find(separator);
  *has_more = at != std::string_view::npos;
  const std::string_view taken = text->substr(0, at);
  *text = *has_more ? text->substr(at + 1) : std::string_view();
  return Trim(taken);
}

bool ParseEntry(std::string_view text, Entry* entry) {
  bool has_more = true;
  for (double* number : {&entry->a, &entry->b, &entry->c}) {
    if (!has_more) return false;
    const std::string_view part = TakeUntil(',', &text, &has_more);
    const auto result = std::from_chars(part.data(), part.data() + part.size(), *number);
    if (result.ec != std::errc() || result.ptr != part.data() + part.size() || !std::isfinite(*number)) return false;
  }
  return !has_more;
}

}  // namespace

bool ParseNsCoefficients(std::string_view text, NsCoefficients* coefficients, std::string* canonical) {
  for (size_t i = 0; i < std::size(kSchedules); ++i) {
    if (text != kNsScheduleNames[i]) continue;
    const NamedSchedule& schedule = kSchedules[i];
    *coefficients = {};
    std::copy(schedule.entries.begin(), schedule.entries.end(), coefficients->entries);
    coefficients->count = static_cast<int>(schedule.entries.size());
    coefficients->divisor = schedule.divisor;
    *canonical = kNsScheduleNames[i];
    return true;
  }
  NsCoefficients parsed;
  std::string written;
  for (bool has_more = true; has_more; ++parsed.count) {
    if (parsed.count == NsCoefficients::kMaxEntries) return false;
    Entry& entry = parsed.entries[parsed.count];
    if (!ParseEntry(TakeUntil(';', &text, &has_more), &entry)) return false;
    written += Cat(written.empty() ? "" : ";", entry.a, ",", entry.b, ",", entry.c);
  }
  *coefficients = parsed;
  *canonical = std::move(written);
  return true;
}

}  // namespace shampoo
