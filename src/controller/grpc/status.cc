#include "controller/grpc/status.h"

#include "controller/protocol.h"

namespace square::controller {

grpc::Status to_grpc(const Status& status) {
  if (status.is_ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), status.message().substr(0, kMaxErrorBytes)};
}

Status from_grpc(const grpc::Status& status) {
  if (status.ok()) return {};
  const int code = status.error_code();
  const bool known = code > 0 && code <= static_cast<int>(StatusCode::kUnauthenticated);
  return {known ? static_cast<StatusCode>(code) : StatusCode::kUnknown, status.error_message()};
}

}  // namespace square::controller
