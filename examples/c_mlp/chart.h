// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Curves as a picture, in the SVG format that every browser shows.
#ifndef C_MLP_CHART_H
#define C_MLP_CHART_H

enum { kChartCurves = 2 };

// One system of axes. What lies outside of [y_min, y_max] is cut off.
typedef struct {
  const char* title;
  int logarithmic;                // 1: y_min > 0, gridlines at 1, 2 and 5 of every decade
  double y_min, y_max;            // what the vertical axis shows
  double y_step;                  // distance of gridlines; not used if logarithmic
  const char* format;             // printf format of one double for the labels of the vertical axis
  const char* final_format;       // and for the last values, at the ends of the curves
  const double* y[kChartCurves];  // [points] each
} ChartPanel;

typedef struct {
  const char* title;
  const char* notes[2];  // lines below the title
  const char* x_title;
  const char* curve_names[kChartCurves];
  int points;  // of every curve, at x = 0, 1, ..., points - 1; at least 2
  ChartPanel panels[2];
} Chart;

void chart_write(const Chart* chart, const char* path);

#endif
