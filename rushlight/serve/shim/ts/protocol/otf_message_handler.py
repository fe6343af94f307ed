"""The place of `send_intermediate_predict_response` that handlers know."""

from ts.handler_utils.utils import send_intermediate_predict_response

__all__ = ["send_intermediate_predict_response"]
