// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/against_cpu/course.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "tests/cuda/fake/control.h"

namespace shampoo_test {
namespace {

constexpr const char* kCounts[] = {"steps",        "skipped_steps", "nonfinite_blocks",  "root_computed",
                                   "root_retried", "root_reused",   "root_scalar",       "root_diagonal",
                                   "root_eigen",   "root_newton",   "root_higher_order", "root_cans"};

size_t ElementsOf(const ParamSpec& param) {
  size_t elements = 1;
  for (const int64_t d : param.shape) elements *= static_cast<size_t>(d);
  return elements;
}

// Returns the tolerance of a course. By default, the tolerance depends on the dtypes: the device and the CPU may round
// a value in different directions, and the next step uses the rounded value.
double ToleranceOf(const Course& course) {
  if (course.tolerance > 0) return course.tolerance;
  const ModelSpec& spec = course.spec;
  bool f64 = spec.keys.Value("root_dtype") != "f32" && spec.keys.Value("computation_dtype") != "f32";
  double tolerance = 0;
  const auto stored = [&](int32_t dtype) {
    const double own = dtype == SHAMPOO_BF16 ? 3e-2 : dtype == SHAMPOO_F16 ? 4e-3 : dtype == SHAMPOO_F32 ? 1e-6 : 1e-10;
    tolerance = std::max(tolerance, own);
  };
  for (const ParamSpec& param : spec.params) {
    const bool wide = spec.keys.Value("computation_dtype") == "f64" || param.param_dtype == SHAMPOO_F64;
    f64 = f64 && wide;
    stored(param.param_dtype);
    if (!param.in_place) stored(param.out_dtype);
    if (param.copy_dtype != 0) stored(param.copy_dtype);
  }
  for (const char* state :
       {"factor_dtype", "inverse_dtype", "filtered_grad_dtype", "momentum_dtype", "grafting_dtype"}) {
    const std::string dtype = spec.keys.Value(state);
    stored(dtype == "bf16" ? SHAMPOO_BF16 : dtype == "f16" ? SHAMPOO_F16 : dtype == "f32" ? SHAMPOO_F32 : SHAMPOO_F64);
  }
  return f64 ? tolerance : std::max(tolerance, 1e-4);
}

// Describes the element that differs most.
std::string LargestDifference(const std::vector<double>& device, const std::vector<double>& host) {
  if (device.size() != host.size()) return "the sizes differ";
  size_t at = 0;
  double largest = -1;
  for (size_t i = 0; i < host.size(); ++i) {
    if (std::isnan(device[i]) && std::isnan(host[i])) continue;
    const double difference = std::fabs(device[i] - host[i]);
    if (std::isnan(difference) || difference > largest) {
      largest = difference;
      at = i;
    }
    if (std::isnan(difference)) break;
  }
  std::ostringstream text;
  text.precision(9);
  text << "element " << at << " is " << device[at] << " on the device and " << host[at] << " on the CPU";
  return text.str();
}

void Prepare(const Course& course, int64_t t, Model* model) {
  const ModelSpec& spec = course.spec;
  model->FillGradients(static_cast<uint64_t>(t));
  const bool moves = spec.keys.Value("output") != "updates";
  for (size_t p = 0; p < spec.params.size(); ++p) {
    if (course.gradient) model->SetGradient(p, course.gradient(t, p, ElementsOf(spec.params[p])));
    if (course.has_gradient) model->DropGradient(p, !course.has_gradient(t, p));
    if (t > 1 && moves && !spec.params[p].in_place) model->SetParam(p, model->OutValues(p));
  }
  if (course.before) course.before(t, model);
}

}  // namespace

const std::vector<double>& Results::Of(const std::string& name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  REQUIRE_MESSAGE(found != names.end(), name);
  return values[static_cast<size_t>(found - names.begin())];
}

Results Run(const Course& course, int32_t device_type) {
  ModelSpec spec = course.spec;
  spec.device_type = device_type;
  Model model(spec);
  for (int64_t t = 1; t <= course.steps; ++t) {
    Prepare(course, t, &model);
    model.Step();
  }
  Results results;
  const auto add = [&](std::string name, std::vector<double> values) {
    results.names.push_back(std::move(name));
    results.values.push_back(std::move(values));
  };
  for (size_t p = 0; p < spec.params.size(); ++p) {
    const std::string name = "p" + std::to_string(p);
    add(name, model.ParamValues(p));
    if (!spec.params[p].in_place) add(name + ".out", model.OutValues(p));
    if (spec.params[p].copy_dtype != 0) add(name + ".copy", model.CopyValues(p));
  }
  for (const std::string& key : model.Keys()) add(key, model.State(key));
  for (const char* count : kCounts) results.counts.push_back(model.Stat(count));
  CHECK(std::string(fake_cuda_problems()).empty());
  return results;
}

namespace {

// Describes the differences between the results of a course on the device and on the CPU. tolerance_of(name) returns
// the tolerance of a buffer or state, or a negative number if the buffer or state is not compared.
template <typename ToleranceOf>
std::string DifferenceWithin(const Course& course, const ToleranceOf& tolerance_of) {
  const Results host = Run(course, SHAMPOO_CPU);
  const Results device = Run(course, SHAMPOO_CUDA);
  if (host.names != device.names) return "the device and the CPU have different buffers or states";
  std::ostringstream text;
  for (size_t i = 0; i < host.names.size(); ++i) {
    const double tolerance = tolerance_of(host.names[i]);
    const double distance = Distance(device.values[i], host.values[i]);
    if (tolerance < 0 || distance <= tolerance) continue;
    text << host.names[i] << " differs by " << distance << ": " << LargestDifference(device.values[i], host.values[i])
         << "\n";
  }
  for (size_t i = 0; i < std::size(kCounts); ++i) {
    if (host.counts[i] == device.counts[i]) continue;
    text << kCounts[i] << " is " << device.counts[i] << " on the device and " << host.counts[i] << " on the CPU\n";
  }
  return text.str();
}

}  // namespace

std::string Difference(const Course& course) {
  const double tolerance = ToleranceOf(course);
  return DifferenceWithin(course, [tolerance](const std::string& name) {
    const bool is_exact = name.find("/diagonal") != std::string::npos || name.rfind("group.", 0) == 0;
    return is_exact ? 0 : tolerance;
  });
}

std::string DifferenceWithoutSigns(const Course& course) {
  return DifferenceWithin(course, [](const std::string& name) {
    const bool has_signs =
        name.find("/basis.") != std::string::npos || name.find("/filtered_grad") != std::string::npos;
    return has_signs ? -1 : 1e-9;
  });
}

}  // namespace shampoo_test
