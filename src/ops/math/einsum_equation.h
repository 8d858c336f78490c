// The equation of Einsum: what each dimension of each operand is called.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace tessera {

class EinsumEquation {
 public:
  // Labels are numbers below this: letters first, then the dimensions that an ellipsis stands for.
  static constexpr int kLabels = 128;

  static Result<EinsumEquation> parse(std::string_view text, size_t operands);

  // The labels of operand i (or of the output) when every ellipsis stands for `ellipsis` dimensions.
  std::vector<int> operand(int i, int ellipsis) const { return expand(terms_[static_cast<size_t>(i)], ellipsis); }
  std::vector<int> output(int ellipsis) const { return expand(output_, ellipsis); }
  // Letters in the term of operand i, and whether it has an ellipsis.
  int letters(int i) const;
  bool has_ellipsis(int i) const;
  // For messages: "label 'i' of equation 'ij->ji'".
  std::string where(int label) const;
  const std::string& text() const { return text_; }

 private:
  // One character per letter; a dot is an ellipsis.
  static std::vector<int> expand(const std::string& term, int ellipsis);
  Status parse_term(std::string_view text, std::string* out) const;
  Status parse_output(std::string_view text);
  void imply_output();

  std::string text_;
  std::vector<std::string> terms_;
  std::string output_;
};

}  // namespace tessera
