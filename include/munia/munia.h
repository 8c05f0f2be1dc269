/// munia: a small chat model on a plain CPU. See model.h.
#pragma once

#include "munia/errors.h"
#include "munia/model.h"
#include "munia/types.h"
