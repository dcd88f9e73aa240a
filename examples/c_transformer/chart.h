// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Curves as a picture with two panels, in the SVG format that every browser shows.
#ifndef C_TRANSFORMER_CHART_H
#define C_TRANSFORMER_CHART_H

enum { kChartPanels = 2, kChartCurves = 4 };

typedef struct {
  const char* name;
  int points;
  const double* x[kChartPanels];  // [points] each
  const double* y;                // [points]; both panels show the same values
} ChartCurve;

typedef struct {
  const char* title;
  const char* notes[2];  // lines below the title
  const char* panel_titles[kChartPanels];
  const char* x_titles[kChartPanels];
  int curve_count;
  ChartCurve curves[kChartCurves];
} Chart;

// Both axes begin and end where the curves do, but what lies above the tenth part of the way is cut off: a loss falls
// fast at first, and the end is what counts.
void chart_write(const Chart* chart, const char* path);

#endif
