// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/runner.h"

namespace bench {

// Measurements of whole periods of steps: settings.period steps in a row, among which the schedule refreshes all roots.
struct PeriodRow {
  const Case* model = nullptr;
  Settings settings;
  StepWork work;
  Memory memory;
  double mean = 0;            // seconds per step of steps that wait for the device only at the end; the shortest period
  double longest_host = 0;    // seconds of the longest step of a period, with a wait after each step
  double longest_device = 0;  // the same, of the step's work in its stream
  double root_retried = 0;
};

// Measures periods after the first, which computes the first roots.
PeriodRow MeasurePeriod(const Case& model, const Settings& settings, int min_runs);

// Print rows with times alone, for a device whose limits are not known.
void PrintDeviceHead(const std::vector<int64_t>& frequencies);
void PrintDeviceRow(const Row& row, const std::vector<int64_t>& frequencies);
void PrintPeriodHead();
void PrintPeriodRow(const PeriodRow& row);

// Writes the rows as JSON, with times in milliseconds. If path is empty, nothing is written.
void WriteDeviceJson(const std::string& path, const std::string& device, const std::vector<Row>& rows,
                     const std::vector<PeriodRow>& periods, const std::vector<int64_t>& frequencies);

}  // namespace bench
