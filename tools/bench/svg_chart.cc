// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <sstream>

#include "tools/bench/fail.h"

namespace bench {
namespace {

// Sizes in pixels. A panel is the frame between the axes; its labels are outside of it.
constexpr int kWidth = 1100;
constexpr int kHeight = 450;
constexpr int kTop = 104;
constexpr int kPanelHeight = 280;
constexpr int kPanelWidth = 340;
constexpr int kLefts[2] = {70, 600};
constexpr double kLineOfText = 15;
// Color-blind people can distinguish these colors.
const char* const kColors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};

// Formats a number with three digits if it is below a thousand.
std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 1000 ? "%.3g" : "%.0f", value);
  return text;
}

std::string Escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  return escaped;
}

class PanelWriter {
 public:
  PanelWriter(const Chart& chart, int index, std::ostream& svg)
      : chart_(chart), panel_(chart.panels[index]), left_(kLefts[index]), svg_(svg) {
    least_ = 1e300;
    for (const auto* curves : {&panel_.curves, &panel_.dashed}) {
      for (const Curve& curve : *curves) {
        for (const double y : curve.y) least_ = std::min(least_, y), most_ = std::max(most_, y);
      }
    }
    least_ /= 1.3;
    most_ *= 1.3;
  }

  void Write() {
    Text(left_, kTop - 14, "class=\"head\"", panel_.title);
    Axes();
    const auto solid = panel_.curves.size();
    for (size_t i = 0; i < panel_.dashed.size(); ++i) Line(panel_.dashed[i], "#777", "stroke-dasharray=\"5 4\"");
    for (size_t i = solid; i-- > 0;) Line(panel_.curves[i], ColorOf(i), "");  // the first one is drawn last, on top
    Names();
  }

 private:
  static const char* ColorOf(size_t i) { return kColors[i % (sizeof kColors / sizeof kColors[0])]; }

  double X(double value) const {
    const double range = std::log(chart_.x.back() / chart_.x.front());
    return left_ + kPanelWidth * (range > 0 ? std::log(value / chart_.x.front()) / range : 0.5);
  }
  double Y(double value) const {
    return kTop + kPanelHeight * (1 - std::log(value / least_) / std::log(most_ / least_));
  }

  void Text(double x, double y, const std::string& attributes, const std::string& content) {
    svg_ << "<text x=\"" << x << "\" y=\"" << y << "\" " << attributes << '>' << Escape(content) << "</text>\n";
  }

  void Axes() {
    for (double decade = std::pow(10, std::floor(std::log10(least_))); decade <= most_; decade *= 10) {
      for (const double step : {1.0, 2.0, 5.0}) {
        const double value = decade * step;
        if (value < least_ || value > most_) continue;
        svg_ << "<line x1=\"" << left_ << "\" y1=\"" << Y(value) << "\" x2=\"" << left_ + kPanelWidth << "\" y2=\""
             << Y(value) << "\" stroke=\"#e6e6e6\"/>\n";
        Text(left_ - 9, Y(value) + 4, "class=\"tick\" text-anchor=\"end\"", Number(value));
      }
    }
    const int bottom = kTop + kPanelHeight;
    for (const double x : chart_.x) Text(X(x), bottom + 20, "class=\"tick\" text-anchor=\"middle\"", Number(x));
    svg_ << "<line x1=\"" << left_ << "\" y1=\"" << bottom << "\" x2=\"" << left_ + kPanelWidth << "\" y2=\"" << bottom
         << "\" stroke=\"#555\"/>\n";
    Text(left_ + kPanelWidth / 2.0, bottom + 42, "class=\"axis\" text-anchor=\"middle\"", chart_.x_title);
  }

  void Line(const Curve& curve, const char* color, const char* style) {
    svg_ << "<polyline fill=\"none\" stroke=\"" << color << "\" stroke-width=\"2\" " << style << " points=\"";
    for (size_t i = 0; i < curve.y.size(); ++i) svg_ << X(chart_.x[i]) << ',' << Y(curve.y[i]) << ' ';
    svg_ << "\"/>\n";
    for (size_t i = 0; i < curve.y.size(); ++i) {
      svg_ << "<circle cx=\"" << X(chart_.x[i]) << "\" cy=\"" << Y(curve.y[i]) << "\" r=\"2.6\" fill=\"" << color
           << "\"/>\n";
    }
  }

  // Writes the names at the ends of the curves, moved apart so that they do not overlap.
  void Names() {
    struct Label {
      double y;
      std::string text;
      const char* color;
    };
    std::vector<Label> labels;
    const auto add = [&](const Curve& curve, const char* color) {
      labels.push_back({Y(curve.y.back()), curve.name + ": " + Number(curve.y.back()), color});
    };
    for (size_t i = 0; i < panel_.curves.size(); ++i) add(panel_.curves[i], ColorOf(i));
    for (const Curve& curve : panel_.dashed) add(curve, "#777");
    std::stable_sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.y < b.y; });
    for (size_t i = 1; i < labels.size(); ++i) labels[i].y = std::max(labels[i].y, labels[i - 1].y + kLineOfText);
    for (const Label& label : labels) {
      Text(left_ + kPanelWidth + 9, label.y + 4, std::string("class=\"name\" fill=\"") + label.color + '"', label.text);
    }
  }

  const Chart& chart_;
  const Panel& panel_;
  const int left_;
  std::ostream& svg_;
  double least_ = 0;
  double most_ = 0;
};

}  // namespace

void WriteChart(const Chart& chart, const std::string& path) {
  std::ostringstream svg;
  svg.setf(std::ios::fixed);
  svg.precision(1);
  svg << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << kWidth << ' ' << kHeight << "\" width=\""
      << kWidth << "\" height=\"" << kHeight << "\"\n"
      << " font-family=\"DejaVu Sans, Verdana, Arial, sans-serif\" font-size=\"13\" fill=\"#222\">\n"
      << "<style>.tick{font-size:11.5px;fill:#555}.axis{font-size:12.5px;fill:#333}.head{font-size:14px;"
      << "font-weight:bold}.note{font-size:12px;fill:#555}.name{font-size:12px;font-weight:bold}</style>\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      << "<text x=\"24\" y=\"34\" font-size=\"19\" font-weight=\"bold\">" << Escape(chart.title) << "</text>\n"
      << "<text x=\"24\" y=\"57\" class=\"note\">" << Escape(chart.note) << "</text>\n";
  for (int i = 0; i < 2; ++i) PanelWriter(chart, i, svg).Write();
  svg << "</svg>\n";
  std::ofstream file(path);
  file << svg.str();
  if (!file.flush()) Fail("cannot write " + path);
}

}  // namespace bench
