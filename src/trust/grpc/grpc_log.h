// What gRPC and protobuf have to say.
#pragma once

namespace square::trust {

// Into Square's log from now on: by themselves they write to stderr, and any peer can make them. Of what
// protobuf says, a line a second. Any thread; once is enough for the process.
void hear_grpc();

}  // namespace square::trust
