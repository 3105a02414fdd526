"""The one error tree. Raised anywhere, given a wire shape only by a dialect; knows no wire and no HTTP library.

DragomanError
├── InvalidRequest                400
│   ├── InvalidJSON               400  the body is not JSON
│   ├── MissingField              400  a required field is absent
│   ├── InvalidField              400  wrong type or value; names the field
│   │   └── TokenOutOfRange       400  a token id outside the vocabulary; carries id and vocabulary size
│   ├── UnsupportedField          400  known, changes the answer, not honoured here
│   ├── ModelNotLoaded            400  the model is on disk, another one is served
│   └── ContextLengthExceeded     400  prompt longer than the window; carries both numbers
├── AuthenticationFailed          401
├── Forbidden                     403  Origin not allowed
├── NotFound                      404
│   └── ModelNotFound             404
├── MethodNotAllowed              405
├── RequestTimeout                408  the body did not arrive in time
├── PayloadTooLarge               413
├── MisdirectedRequest            421  Host not allowed
├── HeadersTooLarge               431
├── Overloaded                    429  queue full; carries retry_after
├── EngineFailure                 500  the engine broke on this request
├── StorageFailure                500  what was to be kept could not be written or read
│   └── StorageFull               507  the disk is full
├── NotSupported                  501  this server or model cannot do that at all
├── ContractBroken                502  the model's answer is not what was promised (schema, forced call)
└── Unavailable                   503  loading, draining or engine down; carries retry_after
"""


class DragomanError(Exception):
    """Base of all errors a client may see.

    `message` is one clear sentence; `field` the wire name of the offending field, dotted for nested ones
    (`messages[2].content`); `remedy` what the caller can do; `retry_after` seconds, those of the class where nobody
    says.
    """

    status = 500
    code = "internal_error"
    usual_retry_after: int | None = None

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        remedy: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.remedy = remedy
        self.retry_after = self.usual_retry_after if retry_after is None else retry_after

    def __str__(self) -> str:
        return self.sentence

    @property
    def sentence(self) -> str:
        """The message with its remedy, if any."""
        return f"{self.message} {self.remedy}" if self.remedy else self.message


class InvalidRequest(DragomanError):
    """The request is malformed or contradicts itself."""

    status = 400
    code = "invalid_request"


class InvalidJSON(InvalidRequest):
    """The body is not well-formed JSON."""

    code = "invalid_json"


class MissingField(InvalidRequest):
    """A required field is absent."""

    code = "missing_required_parameter"


class InvalidField(InvalidRequest):
    """A field has the wrong type or a value outside its range."""

    code = "invalid_value"


class TokenOutOfRange(InvalidField):
    """A token id is outside the vocabulary. `size` is the number of ids."""

    def __init__(self, token: int, size: int, *, field: str) -> None:
        super().__init__(f"Token id {token} is outside the vocabulary (0..{size - 1}).", field=field)
        self.token = token
        self.size = size


class UnsupportedField(InvalidRequest):
    """A known field that would change the answer cannot be honoured by this server, engine or model."""

    code = "unsupported_parameter"


class ModelNotLoaded(InvalidRequest):
    """The model has a name here but is not the one that is served."""

    code = "model_not_loaded"

    def __init__(self, model: str, base: str, served: str) -> None:
        super().__init__(
            f"The model '{model}' is on this server's disk but not loaded; this server has '{served}'.",
            field="model",
            remedy=f"Start a server with it: dragoman serve {base}",
        )


class ContextLengthExceeded(InvalidRequest):
    """The prompt alone does not fit the context window. Counts are tokens."""

    code = "context_length_exceeded"

    def __init__(self, n_prompt: int, n_ctx: int, *, field: str | None = None) -> None:
        super().__init__(
            f"The prompt has {n_prompt} tokens, but the context window of this model is {n_ctx} tokens.",
            field=field,
            remedy="Shorten the prompt or serve the model with a larger --ctx.",
        )
        self.n_prompt = n_prompt
        self.n_ctx = n_ctx


class AuthenticationFailed(DragomanError):
    """The API key is missing or wrong."""

    status = 401
    code = "invalid_api_key"


class Forbidden(DragomanError):
    """The caller's Origin is not allowed."""

    status = 403
    code = "forbidden"


class NotFound(DragomanError):
    """No such route or object."""

    status = 404
    code = "not_found"


class ModelNotFound(NotFound):
    """The named model is not served here."""

    code = "model_not_found"

    def __init__(self, model: str, served: str, *, field: str = "model") -> None:
        super().__init__(f"The model '{model}' is not served here; this server has '{served}'.", field=field)
        self.model = model


class MethodNotAllowed(DragomanError):
    """The path exists, the method does not. `allowed` lists the methods that do."""

    status = 405
    code = "method_not_allowed"

    def __init__(self, message: str, *, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allowed = allowed


class RequestTimeout(DragomanError):
    """The request body did not arrive in time."""

    status = 408
    code = "request_timeout"


class PayloadTooLarge(DragomanError):
    """The request body is larger than this server accepts."""

    status = 413
    code = "payload_too_large"


class MisdirectedRequest(DragomanError):
    """The Host header names a host this server does not answer for (DNS rebinding guard)."""

    status = 421
    code = "misdirected_request"


class HeadersTooLarge(DragomanError):
    """The request headers are larger than this server accepts."""

    status = 431
    code = "headers_too_large"


class Overloaded(DragomanError):
    """The waiting queue is full."""

    status = 429
    code = "overloaded"
    usual_retry_after = 1


class EngineFailure(DragomanError):
    """The engine failed while working on this request."""

    status = 500
    code = "engine_failure"


class StorageFailure(DragomanError):
    """What was to be kept could not be written, or what was kept not be read."""

    status = 500
    code = "storage_failure"


class StorageFull(StorageFailure):
    """The disk is full; nothing was stored."""

    status = 507
    code = "storage_full"


class NotSupported(DragomanError):
    """This server or model has no such capability."""

    status = 501
    code = "not_supported"


class ContractBroken(DragomanError):
    """The answer is over and is not of the form the request was promised: no call where one was forced, a strict schema
    not met. Never raised for an answer that a limit or a stop string cut."""

    status = 502
    code = "contract_broken"


class Unavailable(DragomanError):
    """The server is loading, draining, or its engine is down."""

    status = 503
    code = "unavailable"
    usual_retry_after = 5
