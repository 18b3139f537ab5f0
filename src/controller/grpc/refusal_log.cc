#include "controller/grpc/refusal_log.h"

#include "trust/grpc/credentials.h"

namespace square::controller {
namespace {

bool is_refusal(StatusCode code) {
  return code == StatusCode::kPermissionDenied || code == StatusCode::kUnauthenticated ||
         code == StatusCode::kResourceExhausted;
}

}  // namespace

void RefusalLog::note(const grpc::CallbackServerContext& context, std::string_view asked,
                      const Status& answer) {
  if (!is_refusal(answer.code())) return;
  const auto shown = trust::certificate_of(*context.auth_context());
  const std::string who = shown && shown->name ? to_string(*shown->name) : "somebody without a name";
  log_seldom(seldom_, who, {.component = "controller"}, "refused {} at {} {}: {}", who, context.peer(), asked,
             answer.message());
}

void RefusalLog::note_unknown(const std::string& node) {
  log_seldom(seldom_, node, {.component = "controller", .node = node},
             "node {} says what this release does not know", node);
}

}  // namespace square::controller
