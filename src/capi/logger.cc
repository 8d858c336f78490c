#include "capi/logger.h"

#include "capi/guard.h"
#include "capi/topics.h"

namespace tessera::capi {
namespace {

Status log_message(const OrtLogger* logger, OrtLoggingLevel level, const char* message, const ORTCHAR_T* file, int line,
                   const char* function) {
  TRY(not_null({{"logger", logger}, {"message", message}}));
  if (level < ORT_LOGGING_LEVEL_VERBOSE || level > ORT_LOGGING_LEVEL_FATAL)
    return invalid("{} is no severity of a message", static_cast<int>(level));
  const std::string where =
      file ? format(" ({}:{}{}{})", file, line, function ? " " : "", function ? function : "") : "";
  logger->logger->log(level, message + where);
  return {};
}

Status severity(const OrtLogger* logger, OrtLoggingLevel* out) {
  TRY(not_null({{"logger", logger}, {"out", out}}));
  *out = static_cast<OrtLoggingLevel>(logger->logger->severity.load());
  return {};
}

}  // namespace

void fill_logger(OrtApi& api) {
  api.Logger_LogMessage = slot<log_message>;
  api.Logger_GetLoggingSeverityLevel = slot<severity>;
}

}  // namespace tessera::capi
