// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Compares steps on the device with steps on the CPU, for the methods that use eigenbases (soap and kl_shampoo) and for
// the keys that control norms. In the names of tests, kl_soap is method soap with factor_correction=kl.
#include <cmath>

#include "tests/cuda/against_cpu/course.h"

namespace shampoo_test {
namespace {

// Returns a course. The shapes must be such that no factor matrix of the first step has a null space of two or more
// dimensions, because the basis of this space would be arbitrary.
Course BasisCourseOf(const Keys& keys, const Shapes& shapes, int64_t steps) {
  return {.spec = {keys, ParamsOf(shapes, SHAMPOO_F64)}, .steps = steps};
}

void CheckBasisKeys(const Keys& keys, int64_t steps = 8) {
  CAPTURE(keys);
  CHECK(DifferenceWithoutSigns(BasisCourseOf(keys, {{4, 3}, {5, 5}, {2}, {3, 4, 2}, {1, 2}, {1}}, steps)) == "");
}

const Keys kSoap = "method=soap precondition_frequency=2 relative_epsilon=1e-6";
const Keys kKlSoap = kSoap + Keys("factor_correction=kl");
const Keys kKlShampoo = "method=kl_shampoo precondition_frequency=2";

TEST_CASE("soap, kl_soap and kl_shampoo take the same steps as on the CPU") {
  for (const Keys& method : {kSoap, kKlSoap, kKlShampoo}) {
    CheckBasisKeys(method);
    CheckBasisKeys(method + Keys("precondition_frequency=1 weight_decay=0.1"));
    CheckBasisKeys(method + Keys("precondition_1d=true momentum=0.8 use_nesterov=true"));
    CheckBasisKeys(method + Keys("skip_dim_size=3 weight_decay=0.1 weight_decay_type=coupled"));
    CheckBasisKeys(method + Keys("ignored_dims=2,1,3,1 factor_update_frequency=2"));
    CheckBasisKeys(method + Keys("precondition_dims=smaller beta1=0"));
    CheckBasisKeys(method + Keys("basis_tolerance=0.3"));
    CheckBasisKeys(method + Keys("basis_sort=ascending shampoo_beta=0.9"));
  }
}

TEST_CASE("with gradients of zeros, kl_soap and kl_shampoo take the same steps as on the CPU") {
  for (const Keys& method : {kKlSoap, kKlShampoo}) {
    for (const double scale : {1e-5, 1e5}) {
      Course course = BasisCourseOf(method + Keys("precondition_frequency=3"), {{4, 3}, {5, 5}, {3, 4, 2}}, 7);
      course.gradient = [scale](int64_t t, size_t, size_t elements) {
        std::vector<double> gradient(elements);
        if (t <= 2 || t == 5) return gradient;  // zeros in the first steps, and between other gradients
        for (size_t i = 0; i < elements; ++i) gradient[i] = scale * std::sin(static_cast<double>(i * i + 3 * t));
        return gradient;
      };
      CHECK(DifferenceWithoutSigns(course) == "");
    }
  }
}

TEST_CASE("orthogonal iteration takes the same steps as on the CPU with all values of basis_sort and basis_transport") {
  for (const Keys& keys :
       Combinations("basis_method=qr basis_sort=before|after|ascending|none basis_transport=rotate|permute|none")) {
    CheckBasisKeys(kKlSoap + keys);
    CheckBasisKeys(kSoap + keys + Keys("basis_tolerance=0.05 basis_iterations=3"));
  }
}

TEST_CASE("soap takes the same steps as on the CPU with the keys that reproduce other implementations") {
  CheckBasisKeys(kSoap + Keys("first_step=use factor_start=first basis_epsilon=1e-3"));
  CheckBasisKeys(kKlSoap + Keys("first_step=use precondition_frequency=1"));
  const Keys before = "basis_order=before start_preconditioning_step=3";
  for (const Keys& keys : Combinations("basis_method=eigen|qr basis_init=eigen|identity")) {
    CheckBasisKeys(kSoap + before + keys);
    CheckBasisKeys(kKlSoap + before + keys + Keys("kl_eigenvalues=basis"));
  }
  for (const Keys& grafting : Combinations("grafting=sgd|adagrad|rmsprop|adam")) {
    CheckBasisKeys(kSoap + before + grafting + Keys("inverse_exponent=0.7 drop_weighting=true"));
  }
}

TEST_CASE("with soap_post=orthogonalize, method soap takes the same steps as on the CPU") {
  const Keys post = "soap_post=orthogonalize";
  const Keys before = "basis_order=before start_preconditioning_step=3";
  const Keys exact = post + Keys("orthogonalization=exact");
  for (const Keys& method : {kSoap, kKlSoap}) {
    for (const Keys& keys : {post, exact, post + Keys("ns_steps=4 ns_norm=schatten4")}) {
      CheckBasisKeys(method + keys);
      CheckBasisKeys(method + keys + before);
      CheckBasisKeys(method + keys + Keys("first_step=use update_norm=rms shape_scale=rms_adam"));
    }
    CheckBasisKeys(method + exact + Keys("use_merge_dims=true ignored_dims=2,1,3,1"));
    CheckBasisKeys(method + post + Keys("basis_method=qr norm_control=radial update_floor=0.3"));
  }
  for (const char* grafting : {"sgd", "adam"}) {
    CheckBasisKeys(kSoap + post + before + Keys{{"grafting", grafting}});
    CheckBasisKeys(kSoap + exact + before + Keys{{"grafting", grafting}, {"weight_decay", "0.1"}});
  }
}

const std::vector<Keys> kPosts = Combinations("soap_post=orthogonalize orthogonalization=newton_schulz|exact");

TEST_CASE("soap_post orthogonalizes stacked and fused parameters and parameters with fan=in_out as on the CPU") {
  for (const Keys& keys : kPosts) {
    Course course = BasisCourseOf(kSoap + keys, {{3, 4, 5}, {5, 4}, {4, 5}, {2, 4, 4}, {9, 4}, {8, 3}}, 6);
    course.spec.params[0].fan = course.spec.params[1].fan = 1;
    course.spec.params[3].stack_dims = 1;
    course.spec.params[4].row_splits = {4, 5};
    course.spec.params[5].role = SHAMPOO_HEAD;
    course.has_gradient = [](int64_t t, size_t p) { return (t + static_cast<int64_t>(p)) % 4 != 0; };
    CHECK(DifferenceWithoutSigns(course) == "");
  }
}

TEST_CASE("soap_post agrees with the CPU if it orthogonalizes blocks of equal shape as matrices of different shapes") {
  for (const Keys& post : kPosts) {
    const Keys keys = kSoap + post;
    // soap_post orthogonalizes the first two blocks as matrices of 3 x 20 and 12 x 5, and the other blocks as matrices
    // of 3 x 12 and 12 x 3.
    Course fans = BasisCourseOf(keys, {{3, 4, 5}, {3, 4, 5}, {3, 4, 3}, {3, 4, 3}}, 6);
    fans.spec.params[1].fan = fans.spec.params[3].fan = 1;
    CHECK(DifferenceWithoutSigns(fans) == "");
    // After merging, four blocks have the shape 6 x 5. Their matrices are 2 x 15, 6 x 5, 6 x 5 and 3 x 10. The other
    // two blocks and their matrices have the shape 5 x 6.
    const Keys merged = keys + Keys("use_merge_dims=true max_preconditioner_dim=6");
    Course merges = BasisCourseOf(merged, {{2, 3, 5}, {6, 5}, {2, 3, 5}, {3, 2, 5}, {5, 6}, {5, 2, 3}}, 6);
    merges.spec.params[2].fan = 1;
    CHECK(DifferenceWithoutSigns(merges) == "");
    // The 1 x 2 matrix, the 2 x 1 matrix and the vector have blocks of equal shape. The vector is not orthogonalized.
    const Keys vectors = merged + Keys("precondition_1d=true");
    for (const Shapes& shapes : {Shapes{{1, 2}, {2}, {2, 1}}, {{2}, {1, 2}}}) {
      CHECK(DifferenceWithoutSigns(BasisCourseOf(vectors, shapes, 6)) == "");
    }
  }
}

TEST_CASE("soap_post orthogonalizes some blocks of a shape while others take the direction of grafting") {
  const Keys before = "basis_order=before start_preconditioning_step=4 grafting=adam";
  for (const Keys& post : kPosts) {
    Course course = BasisCourseOf(kSoap + post + before, {{4, 3}, {4, 3}, {4, 3}, {3}}, 9);
    course.has_gradient = [](int64_t t, size_t p) { return t % (static_cast<int64_t>(p) + 2) != 0; };
    CHECK(DifferenceWithoutSigns(course) == "");
  }
}

TEST_CASE("blocks of one shape whose gradients are missing in different steps take the same steps as on the CPU") {
  for (const Keys& method : {kSoap, kKlSoap, kKlShampoo}) {
    Course course = BasisCourseOf(method, {{4, 3}, {4, 3}, {4, 3}, {6}}, 11);
    course.has_gradient = [](int64_t t, size_t p) { return (t + static_cast<int64_t>(p)) % 3 != 0; };
    CHECK(DifferenceWithoutSigns(course) == "");
  }
}

TEST_CASE("norms of directions and of parameters are those of the CPU") {
  for (const Keys& method :
       {kSoap, Keys("method=shampoo epsilon=1e-3 grafting=adam use_merge_dims=false"), Keys("method=adam")}) {
    CheckBasisKeys(method + Keys("update_norm=rms update_norm_target=0.2"));
    CheckBasisKeys(method + Keys("update_norm=frobenius max_update_rms=0.01 momentum=0.5"));
    CheckBasisKeys(method + Keys("norm_control=hyperball weight_decay=0.01"));
    CheckBasisKeys(method + Keys("norm_control=hyperball norm_radius=2"));
  }
}

}  // namespace
}  // namespace shampoo_test
