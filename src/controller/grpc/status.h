// Errors as values, and as gRPC has them.
#pragma once

#include <grpcpp/grpcpp.h>

#include "square/status.h"

namespace square::controller {

grpc::Status to_grpc(const Status& status);
Status from_grpc(const grpc::Status& status);

}  // namespace square::controller
