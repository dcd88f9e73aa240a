// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/runner.h"

namespace bench {

// Measurements of whole periods. A period is settings.period consecutive steps, in which each root is refreshed once.
struct PeriodRow {
  const Case* model = nullptr;
  Settings settings;
  StepWork work;
  Memory memory;
  double mean = 0;            // seconds per step in the shortest period, with one wait for the device at its end
  double longest_host = 0;    // seconds of the longest call in a period with a wait after each step
  double longest_device = 0;  // seconds of the longest work of a step in its stream, in the same period
  double root_retried = 0;
};

// Measures at most max_runs periods. They do not include the first period of the session, which computes the first
// roots.
PeriodRow MeasurePeriod(const Case& model, const Settings& settings, int max_runs);

// Print rows with times only, because the limits of the device are not known.
void PrintDeviceHead(const std::vector<int64_t>& frequencies);
void PrintDeviceRow(const Row& row, const std::vector<int64_t>& frequencies);
void PrintPeriodHead();
void PrintPeriodRow(const PeriodRow& row);

// Writes the rows as JSON, with times in milliseconds. If path is empty, nothing is written.
void WriteDeviceJson(const std::string& path, const std::string& device, const std::vector<Row>& rows,
                     const std::vector<PeriodRow>& periods, const std::vector<int64_t>& frequencies);

}  // namespace bench
