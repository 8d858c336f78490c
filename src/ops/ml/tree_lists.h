// The trees of TreeEnsembleClassifier and TreeEnsembleRegressor: parallel lists that name nodes by tree and number.
#pragma once
#include "ops/ml/trees.h"
#include "ops/op.h"

namespace tessera::ml {

// Reads the nodes_* attributes, and the weights whose attributes start with `prefix` ("class" or "target").
Status read_tree_lists(Attrs& attrs, const std::string& prefix, TreeSource& out);
// A list of floats, or the tensor of the name + "_as_tensor" that may stand for it.
Status get_floats_or_tensor(Attrs& attrs, const std::string& name, std::vector<double>& out);

}  // namespace tessera::ml
