"""PyTorch's `nn.modules`: one file per family of layers, imported when one of its layers is first used."""

from ...base import late
from .module import Module

# The layers each file has for users; a new layer is added here too.
LAYERS = late.by_name(
    {
        "container": "Container Sequential ModuleList ModuleDict ParameterList ParameterDict",
        "linear": "Identity Linear Bilinear LazyLinear",
        "activation": (
            "ReLU SiLU Mish SELU Hardsigmoid Hardswish Threshold RReLU Hardtanh ReLU6 Sigmoid Tanh ELU CELU GLU GELU"
            " Hardshrink Softshrink LeakyReLU LogSigmoid Softplus PReLU Softsign Tanhshrink Softmin Softmax LogSoftmax"
            " Softmax2d"
        ),
        "conv": (
            "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d LazyConv2d LazyConv3d"
            " LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d"
        ),
        "batchnorm": (
            "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d"
        ),
        "instancenorm": (
            "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d"
        ),
        "normalization": "LocalResponseNorm CrossMapLRN2d LayerNorm RMSNorm GroupNorm",
        "pooling": (
            "MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d AvgPool1d AvgPool2d AvgPool3d"
            " FractionalMaxPool2d FractionalMaxPool3d LPPool1d LPPool2d LPPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d"
            " AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d"
        ),
        "padding": (
            "ConstantPad1d ConstantPad2d ConstantPad3d ZeroPad1d ZeroPad2d ZeroPad3d ReflectionPad1d ReflectionPad2d"
            " ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d CircularPad1d CircularPad2d"
            " CircularPad3d"
        ),
        "dropout": "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout",
        "sparse": "Embedding EmbeddingBag",
        "loss": (
            "L1Loss MSELoss NLLLoss NLLLoss2d PoissonNLLLoss GaussianNLLLoss KLDivLoss BCELoss BCEWithLogitsLoss"
            " HingeEmbeddingLoss CosineEmbeddingLoss MarginRankingLoss MultiLabelMarginLoss SmoothL1Loss HuberLoss"
            " SoftMarginLoss CrossEntropyLoss LinearCrossEntropyLoss MultiLabelSoftMarginLoss MultiMarginLoss"
            " TripletMarginLoss TripletMarginWithDistanceLoss CTCLoss"
        ),
        "adaptive": "AdaptiveLogSoftmaxWithLoss",
        "flatten": "Flatten Unflatten",
        "fold": "Fold Unfold",
        "pixelshuffle": "PixelShuffle PixelUnshuffle",
        "channelshuffle": "ChannelShuffle",
        "upsampling": "Upsample UpsamplingNearest2d UpsamplingBilinear2d",
        "distance": "PairwiseDistance CosineSimilarity",
        "multihead": "MultiheadAttention",
        "transformer": (
            "TransformerEncoderLayer TransformerDecoderLayer TransformerEncoder TransformerDecoder Transformer"
        ),
        "rnn": "RNNBase RNN GRU LSTM RNNCellBase RNNCell GRUCell LSTMCell",
    }
)

__all__ = ["Module", *LAYERS]
__getattr__, __dir__ = late.names(
    globals(),
    {**LAYERS, "LinearCrossEntropyOptions": "linear_cross_entropy_options"},
    files=(*LAYERS.values(), "lazy", "utils"),
)
