#include "base/status.h"

namespace tessera {

const std::string& Status::message() const {
  static const std::string* const none = new std::string;  // never destroyed: usable during exit
  return rep_ ? rep_->message : *none;
}

Status Status::in(std::string_view where) && {
  if (rep_) rep_->message = format("{}: {}", where, rep_->message);
  return std::move(*this);
}

}  // namespace tessera
