// What the engine refuses at once, before a job is queued: ids, lengths and parameters that cannot
// be computed. Knows the model's limits, not what is running.
#pragma once

#include "engine/job.h"
#include "engine/model_bundle.h"

namespace munia::engine {

/// kInvalidArgument, or kLimit with both numbers when the context cannot hold the job.
Status check_job(const Job& job, const ModelBundle& bundle);

}  // namespace munia::engine
