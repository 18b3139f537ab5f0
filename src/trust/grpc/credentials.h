// Identities as gRPC's credentials.
#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>
#include <vector>

#include "square/identity.h"

namespace square::trust {

// Who a dialled peer must be.
struct Expected {
  std::vector<Role> roles;
  std::string name;  // empty: any
};

// Mutual TLS as `identity`, or nothing of it where that is null.
std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const std::shared_ptr<Identity>& identity,
                                                              Expected expected);
// The same of a server. Whoever is believed gets in; check_caller() says whether it may do what it asks for.
std::shared_ptr<grpc::ServerCredentials> server_credentials(const std::shared_ptr<Identity>& identity);

// Whether the caller whose connection this is may be `name` in one of these roles: Identity::check(). Anybody
// may where `identity` is null.
Status check_caller(const std::shared_ptr<Identity>& identity, const grpc::AuthContext& connection,
                    const std::vector<Role>& roles, std::string_view name);

// What it has shown; nothing where the connection is not TLS.
std::optional<PeerCertificate> certificate_of(const grpc::AuthContext& connection);

}  // namespace square::trust
