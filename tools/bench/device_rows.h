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
  double mean = 0;  // seconds per step in the shortest period. The host waits for the device only after the last step.
  // The largest times of a step in another period, in seconds. The host waits for the device after each step.
  double longest_host = 0;    // StepTime::host
  double longest_device = 0;  // StepTime::device
  double root_retried = 0;
};

// Measures at most max_runs periods for PeriodRow::mean, and one more for the largest times of a step. Steps before
// these periods compute the first roots. The times of those steps are not in the result.
PeriodRow MeasurePeriod(const Case& model, const Settings& settings, int max_runs);

// These functions print times. They do not compare the times with limits of the machine: with --device cuda or
// --period, the program measures no limits.
void PrintDeviceHead(const std::vector<int64_t>& frequencies);
void PrintDeviceRow(const Row& row, const std::vector<int64_t>& frequencies);
void PrintPeriodHead();
void PrintPeriodRow(const PeriodRow& row);

// Writes the rows as JSON, with times in milliseconds. If path is empty, nothing is written.
void WriteDeviceJson(const std::string& path, const std::string& device, const std::vector<Row>& rows,
                     const std::vector<PeriodRow>& periods, const std::vector<int64_t>& frequencies);

}  // namespace bench
