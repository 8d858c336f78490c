#include "ops/math/einsum_equation.h"

#include <algorithm>

namespace tessera {
namespace {

constexpr int kFirstEllipsis = 64;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

Status EinsumEquation::parse_term(std::string_view text, std::string* out) const {
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_letter(text[i])) {
      out->push_back(text[i]);
    } else if (text.substr(i, 3) == "...") {
      if (out->find('.') != std::string::npos)
        return invalid_graph("equation {} has two ellipses in one term", quote(text_));
      out->push_back('.');
      i += 2;
    } else {
      return invalid_graph("equation {} has {}, wanted letters, '...', ',' and one '->'", quote(text_),
                           quote(text.substr(i, 1)));
    }
  }
  return {};
}

Status EinsumEquation::parse_output(std::string_view text) {
  TRY(parse_term(text, &output_));
  for (size_t i = 0; i < output_.size(); ++i) {
    const char c = output_[i];
    if (output_.find(c) != i)
      return invalid_graph("equation {} has {} twice in the output", quote(text_), quote({&c, 1}));
    const auto names = [&](const std::string& term) { return term.find(c) != std::string::npos; };
    if (c != '.' && std::none_of(terms_.begin(), terms_.end(), names))
      return invalid_graph("equation {} has {} in the output, but in no operand", quote(text_), quote({&c, 1}));
  }
  return {};
}

// Letters that occur once, capitals first, behind the ellipsis.
void EinsumEquation::imply_output() {
  int times[128] = {};
  for (const std::string& term : terms_)
    for (const char c : term) ++times[static_cast<int>(c)];
  if (times['.'] > 0) output_.push_back('.');
  for (int c = 'A'; c <= 'z'; ++c)
    if (times[c] == 1) output_.push_back(static_cast<char>(c));
}

Result<EinsumEquation> EinsumEquation::parse(std::string_view text, size_t operands) {
  EinsumEquation e;
  e.text_ = text;
  std::string dense(text);
  std::erase(dense, ' ');
  const size_t arrow = dense.find("->");
  std::string_view left = std::string_view(dense).substr(0, arrow);
  for (size_t comma;; left.remove_prefix(comma + 1)) {
    comma = left.find(',');
    TRY(e.parse_term(left.substr(0, comma), &e.terms_.emplace_back()));
    if (comma == std::string_view::npos) break;
  }
  if (e.terms_.size() != operands)
    return invalid_graph("equation {} has {} terms for {} operands", quote(text), e.terms_.size(), operands);
  if (arrow == std::string::npos)
    e.imply_output();
  else
    TRY(e.parse_output(std::string_view(dense).substr(arrow + 2)));
  return e;
}

std::vector<int> EinsumEquation::expand(const std::string& term, int ellipsis) {
  std::vector<int> out;
  for (const char c : term) {
    if (c != '.') out.push_back(c - 'A');
    for (int k = 0; c == '.' && k < ellipsis; ++k) out.push_back(kFirstEllipsis + k);
  }
  return out;
}

int EinsumEquation::letters(int i) const {
  const std::string& term = terms_[static_cast<size_t>(i)];
  return static_cast<int>(term.size()) - (has_ellipsis(i) ? 1 : 0);
}

bool EinsumEquation::has_ellipsis(int i) const { return terms_[static_cast<size_t>(i)].find('.') != std::string::npos; }

std::string EinsumEquation::where(int label) const {
  const std::string name = label < kFirstEllipsis ? std::string(1, static_cast<char>('A' + label)) : "...";
  return format("label {} of equation {}", quote(name), quote(text_));
}

}  // namespace tessera
