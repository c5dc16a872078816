//! Platforms of many services, which refuse in one way for all: AWS and Google.

use super::{ANY, PLAIN, refused, sign, wait};
use crate::body_quotas;
use crate::dialect::Dialect;
use crate::observation::RefusalKind;
use crate::refusal::RefusalRow;
use crate::response::ResponseField::{Body, Header};
use crate::response::ResponseSign;
use crate::response::TextMatch::{Begins, Is, IsAwsCode, IsOneOf};
use crate::wait::{WaitFormat, WaitRow};

/// The error codes with which services of AWS throttle, as its SDKs know them. `LimitExceededException` is not among them:
/// for most services it is a number of resources, not a rate.
const AWS_THROTTLES: &[&str] = &[
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottled",
    "RequestThrottledException",
    "TooManyRequestsException",
    "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "SlowDown",
    "PriorRequestNotComplete",
];

/// Errors of AWS. DynamoDB and most JSON services throttle with 400, S3 and EC2 with 503.
const AWS_ERRORS: &[u16] = &[400, 403, 429, 500, 503];

/// Lambda's reasons that are about calls at the same time.
const LAMBDA_CONCURRENCY: &[&str] = &[
    "ConcurrentInvocationLimitExceeded",
    "ReservedFunctionConcurrentInvocationLimitExceeded",
    "ConcurrentSnapshotCreateLimitExceeded",
];

/// Where AWS tells the code: in JSON, in the XML of the query protocol, of EC2, and of S3, which may refuse in a 200.
const AWS_JSON: ResponseSign = sign(AWS_ERRORS, Body("__type"), IsAwsCode(AWS_THROTTLES));
const AWS_CODE: ResponseSign = sign(AWS_ERRORS, Body("code"), IsAwsCode(AWS_THROTTLES));
const AWS_QUERY: ResponseSign = sign(AWS_ERRORS, Body("ErrorResponse.Error.Code"), IsAwsCode(AWS_THROTTLES));
const AWS_EC2: ResponseSign = sign(AWS_ERRORS, Body("Response.Errors.Error.Code"), IsAwsCode(AWS_THROTTLES));
const AWS_S3: ResponseSign = sign(ANY, Body("Error.Code"), IsAwsCode(AWS_THROTTLES));

/// One dialect for all services: the header, JSON and XML name the same codes. No counters and, but for a few, no waits.
pub(super) static AWS: Dialect = Dialect {
    names: &["aws"],
    // The ids of requests are those of all vendors behind its gateway.
    detected_by: &[&[("x-amzn-errortype", "")]],
    told_by: &[AWS_JSON, AWS_CODE, AWS_QUERY, AWS_EC2, AWS_S3],
    refusals: &[
        refused(&[429], Body("Reason"), IsOneOf(LAMBDA_CONCURRENCY), RefusalKind::Concurrency),
        // The quota of a usage plan of the API Gateway: of a day, a week or a month.
        RefusalRow {
            sign: sign(&[429], Header("x-amzn-errortype"), IsAwsCode(&["LimitExceededException"]))
                .and(Body("message"), Is("Limit Exceeded")),
            kind: RefusalKind::DailyQuota,
        },
        refused(AWS_ERRORS, Header("x-amzn-errortype"), IsAwsCode(AWS_THROTTLES), RefusalKind::Rate),
        RefusalRow { sign: AWS_CODE, kind: RefusalKind::Rate },
        RefusalRow { sign: AWS_JSON, kind: RefusalKind::Rate },
        RefusalRow { sign: AWS_QUERY, kind: RefusalKind::Rate },
        RefusalRow { sign: AWS_EC2, kind: RefusalKind::Rate },
        RefusalRow { sign: AWS_S3, kind: RefusalKind::Rate },
    ],
    waits: &[wait(Body("retryAfterSeconds"), WaitFormat::Duration)],
    reasons: &[
        Body("Reason"),
        Header("x-amzn-errortype"),
        Body("__type"),
        Body("code"),
        Body("ErrorResponse.Error.Code"),
        Body("Response.Errors.Error.Code"),
        Body("Error.Code"),
    ],
    ..PLAIN
};

/// Statuses with which Google refuses: the older services with 403, which is also about permissions.
const GOOGLE_REFUSES: &[u16] = &[403, 429];

const GOOGLE_RATES: &[&str] = &["rateLimitExceeded", "userRateLimitExceeded"];
const GOOGLE_DAYS: &[&str] = &["dailyLimitExceeded", "quotaExceeded"];

/// The older services have `errors`, the newer ones `details`. Gemini is a dialect of its own.
pub(super) static GOOGLE: Dialect = Dialect {
    names: &["google"],
    told_by: &[
        sign(GOOGLE_REFUSES, Body("error.errors.*.reason"), IsOneOf(GOOGLE_RATES)),
        sign(GOOGLE_REFUSES, Body("error.errors.*.reason"), IsOneOf(GOOGLE_DAYS)),
        sign(GOOGLE_REFUSES, Body("error.details.*.@type"), Begins("type.googleapis.com/google.rpc.")),
        sign(GOOGLE_REFUSES, Body("error.status"), Is("RESOURCE_EXHAUSTED")),
    ],
    refusals: &[
        refused(GOOGLE_REFUSES, Body("error.errors.*.reason"), IsOneOf(GOOGLE_DAYS), RefusalKind::DailyQuota),
        refused(GOOGLE_REFUSES, Body("error.errors.*.reason"), IsOneOf(GOOGLE_RATES), RefusalKind::Rate),
        refused(GOOGLE_REFUSES, Body("error.details.*.reason"), Is("RATE_LIMIT_EXCEEDED"), RefusalKind::Rate),
    ],
    waits: &[WaitRow {
        field: Body("error.details.*.retryDelay"),
        format: WaitFormat::Duration,
        wrong_if_daily: true,
    }],
    reasons: &[Body("error.errors.*.reason"), Body("error.details.*.reason"), Body("error.status")],
    body_quotas: Some(body_quotas::google),
    ..PLAIN
};
